"""Why an environment's packages are not as published: by the recipe, by the system, or by what a row is of."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from uenvtool.env.environment import Environment
from uenvtool.knowledge.condition import Condition, Facts
from uenvtool.knowledge.published import Row
from uenvtool.knowledge.recipe import Published


def reasons(environment: Environment, ours: Collection[str]) -> dict[str, str]:
    """Spack package of the published table to the first reason on record; those without one are left out.

    ours: the packages that the environment has.
    """
    published = environment.recipe.published
    if published is None:
        return {}
    rows = published.table.rows
    found = {row.package: next(_reasons(environment, published, row, row.package in ours), "") for row in rows}
    return {package: reason for package, reason in found.items() if reason}


def _reasons(environment: Environment, published: Published, row: Row, present: bool) -> Iterator[str]:
    system = environment.system
    facts = system.facts(environment.node.uarch)
    if row.package in published.differences:
        yield published.differences[row.package].reason
    brought = system.packages.get(row.package)
    if present and brought and brought.decides_version and brought.when.holds(facts) and brought.reason:
        yield f"{system.name}: {brought.reason}"
    for absence in published.absent:
        if not present and row.package in absence.packages and absence.when.holds(facts):
            yield absence.reason
    if row.when.holds(facts) is False:
        yield f"published for {row.when}; {system.name} has {_unlike(row.when, facts)}"


def _unlike(condition: Condition, facts: Facts) -> str:
    """The facts that keep a condition from holding."""
    wrong = [term.fact for term in condition.terms if term.holds(facts) is False]
    return " and ".join(f"{fact} {facts[fact] or 'none'}" for fact in wrong)
