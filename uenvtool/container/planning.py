"""Plans of images by the names in their recipes, and the system that they are for."""

from __future__ import annotations

from collections.abc import Sequence

from uenvtool.container.plan import ContainerPlan, plan_container
from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.component import Component
from uenvtool.knowledge.component_reader import load_component
from uenvtool.knowledge.container import Container
from uenvtool.knowledge.container_reader import load_container
from uenvtool.knowledge.kinds import COMPONENT
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.machine import on_this_machine
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.system import System
from uenvtool.knowledge.system_reader import load_system, this_system


def planned(container: Container, system: str | None, uarch: str | None) -> ContainerPlan:
    """The plan of a recipe and of all that it builds on. system: a name; default: this one, else the recipe's home.

    Raises BadInput with everything that is wrong.
    """
    recipes = _down_to_the_base(container)
    home = next((recipe.home for recipe in recipes if recipe.home), "")
    chosen = _system(system, home)
    if uarch is not None and uarch not in chosen.nodes:
        raise BadInput([unknown(f"node type of {chosen.name}", uarch, chosen.nodes)])
    node = uarch or next(iter(chosen.nodes))
    return _on_each_other(recipes, chosen, node)


def _on_each_other(recipes: Sequence[Container], system: System, uarch: str) -> ContainerPlan:
    """The plan of the first recipe, whose image builds on that of the second one, and so on."""
    first, *rest = recipes
    below = _on_each_other(rest, system, uarch) if rest else None
    return plan_container(first, _components(first), system, uarch, below=below, known=available(COMPONENT))


def _system(name: str | None, home: str) -> System:
    """The system that is named, else the one that this is, else the recipe's home."""
    here = recognised() if name is None else None
    chosen = name or (here[0] if here else home) or this_system()
    return on_this_machine(load_system(chosen))


def _down_to_the_base(container: Container) -> list[Container]:
    """A recipe, and those whose images it builds on, the nearest first. Raises BadInput for a circle."""
    found = [container]
    while (below := found[-1].below) is not None:
        found.append(load_container(below.name, below.position))
        names = [recipe.name for recipe in found]
        if names[-1] in names[:-1]:
            hint = "one of them must have a `base`"
            raise BadInput(f"`from` goes in a circle: {' -> '.join(names)}", below.position, hint)
    return found


def _components(container: Container) -> dict[str, Component]:
    """The components that a recipe names. Raises BadInput with what is wrong in all of them."""
    found: dict[str, Component] = {}
    problems: list[Problem] = []
    for choice in container.components:
        try:
            found[choice.name] = load_component(choice.name, choice.position)
        except BadInput as error:
            problems += error.problems
    if problems:
        raise BadInput(problems)
    return found
