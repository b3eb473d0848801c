"""Finds the texts of a recipe with a `${fact}` that has no value on a node type that the recipe supports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from uenvtool.core.errors import BadInput, Position, Problem
from uenvtool.knowledge.condition import Condition, Facts
from uenvtool.knowledge.facts import filled
from uenvtool.knowledge.mpi import facts_with_mpi
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.recognise import concrete_systems
from uenvtool.knowledge.system import System, load_system


def facts_with_paths(recipe: Recipe, system: System, facts: Facts) -> Facts:
    """Return the facts that a view's variables can contain: the facts of a node, and the paths of the image."""
    view = f"{system.mount}/env/{recipe.view.name}" if system.mount else "$env/.spack-env/" + recipe.view.name
    return {**facts, "mount": system.mount, "view": recipe.view.name, "view_root": view}


def unfilled(recipe: Recipe) -> list[Problem]:
    """Return a problem for each text with a `${fact}` that has no value in a build on some known system.

    The problem names the first such system.
    """
    problems: dict[Position, Problem] = {}
    for name in concrete_systems():
        with contextlib.suppress(BadInput):  # uenvtool reports an invalid system when the user names it
            system = load_system(name)
            for uarch in filter(recipe.supports, system.nodes):
                facts = facts_with_paths(recipe, system, facts_with_mpi(recipe, system, uarch))
                for text, position, when in _texts(recipe):
                    try:
                        if when.holds(facts):
                            filled(text, facts, position)
                    except BadInput as error:
                        problems.setdefault(position, error.problems[0])
    return list(problems.values())


def _texts(recipe: Recipe) -> Iterator[tuple[str, Position, Condition]]:
    for group in (recipe.variants[name] for name in recipe.global_variants):
        yield from ((value, group.position, group.when) for value in group.values)
    yield from ((root.spec.text, root.position, root.when) for root in recipe.roots)
    for pin in (*recipe.require.values(), *([recipe.python] if recipe.python else [])):
        yield pin.variants, pin.position, pin.when
    yield from ((variable.value or "", variable.position, variable.when) for variable in recipe.view.env)
