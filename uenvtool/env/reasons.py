"""Why an environment's packages are not as published: by the recipe, by the system, or by what a row is of."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from uenvtool.env.environment import Environment
from uenvtool.knowledge.condition import Condition, Facts
from uenvtool.knowledge.published import Row


def reasons(environment: Environment, ours: Collection[str]) -> dict[str, str]:
    """Spack package of the published table to the first reason on record; those without one are left out.

    ours: the packages that the environment has.
    """
    recipe = environment.recipe
    rows = recipe.published.rows if recipe.published else ()
    found = {row.package: next(_reasons(environment, row, row.package in ours), "") for row in rows}
    return {package: reason for package, reason in found.items() if reason}


def _reasons(environment: Environment, row: Row, present: bool) -> Iterator[str]:
    recipe, system = environment.recipe, environment.system
    facts = system.facts(environment.node.uarch)
    if row.package in recipe.differences:
        yield recipe.differences[row.package].reason
    brought = system.packages.get(row.package)
    if present and brought and brought.decides_version and brought.when.holds(facts) and brought.reason:
        yield f"{system.name}: {brought.reason}"
    for absence in recipe.absent:
        if not present and row.package in absence.packages and absence.when.holds(facts):
            yield absence.reason
    if row.when.holds(facts) is False:
        yield f"published for {row.when}; {system.name} has {_unlike(row.when, facts)}"


def _unlike(condition: Condition, facts: Facts) -> str:
    """The facts that keep a condition from holding."""
    wrong = [term.fact for term in condition.terms if term.holds(facts) is False]
    return " and ".join(f"{fact} {facts[fact] or 'none'}" for fact in wrong)
