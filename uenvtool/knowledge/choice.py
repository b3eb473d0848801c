"""Recipes and systems by name, checked: what commands start from."""

from __future__ import annotations

from dataclasses import dataclass

from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.checks import load_recipe
from uenvtool.knowledge.machine import on_this_machine
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.system import System, concrete_systems, load_system

__all__ = ["Choice", "choose", "load_recipe", "system_name"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The system and node type that a command works for, and why these."""

    system: System
    uarch: str
    reason: str


def choose(recipe: Recipe, system: str | None, uarch: str | None) -> Choice:
    """Return the system and node type for a recipe: the named, else the recognised, else the recipe's home.

    Raises BadInput if the recipe does not support what was named.
    """
    name, reason = system_name(recipe, system, uarch)
    chosen = on_this_machine(load_system(name))
    supported = [node for node in chosen.nodes if recipe.supports(node)]
    if uarch is None and supported:
        return Choice(chosen, supported[0], reason)
    if uarch in supported:
        return Choice(chosen, uarch, reason)
    if uarch is not None and uarch not in chosen.nodes:
        raise BadInput([unknown(f"node type of {chosen.name}", uarch, chosen.nodes)])
    wanted = uarch or ", ".join(chosen.nodes)
    fitting = [name for name in concrete_systems() if any(map(recipe.supports, load_system(name).nodes))]
    raise BadInput(
        [
            Problem(
                f"{recipe.name} does not support {wanted} (system {chosen.name})",
                recipe.tree.at(("uarchs",)).position,
                f"it supports {', '.join(recipe.uarchs)}; add {wanted} to `uarchs` in a recipe that extends it"
                + (f", or choose another system ({', '.join(fitting)})" if fitting else ""),
            )
        ]
    )


def system_name(recipe: Recipe, system: str | None, uarch: str | None) -> tuple[str, str]:
    """Return the name of the system to work for, and why it is that one."""
    if system is not None:
        return system, "named with --system"
    here = recognised()
    if here is not None:
        name, seen = here
        nodes = load_system(name).nodes
        if any(recipe.supports(node) and uarch in (None, node) for node in nodes):
            return name, f"this machine is {name} ({seen})"
    return recipe.home, f"the home of {recipe.name}; --system names another"
