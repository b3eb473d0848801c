"""The plan of the image that a user asks for: of a recipe by its name, or of packages on somebody's image."""

from __future__ import annotations

import re
from collections.abc import Sequence

from uenvtool.container.plan import ContainerPlan, plan_container
from uenvtool.container.request import ContainerRequest
from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.component import Component, load_component
from uenvtool.knowledge.container import Container, container_of, load_container
from uenvtool.knowledge.kinds import COMPONENT
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.machine import on_this_machine
from uenvtool.knowledge.recognise import recognised
from uenvtool.knowledge.system import System, load_system, this_system
from uenvtool.venv.requirements import checked_names

_REFERENCE = re.compile(r"(?:docker://)?(?P<image>[^@]+?):(?P<tag>[^:/@]+)(?:@(?P<digest>[^@]+))?")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


def planned(request: ContainerRequest) -> ContainerPlan:
    """Return the plan of a request's recipe and of all that it builds on.

    Without a system it is this one, else the recipe's home. Raises BadInput with everything that is wrong.
    """
    recipes = _down_to_the_base(_recipe(request))
    home = next((recipe.home for recipe in recipes if recipe.home), "")
    chosen = _system(request.system, home)
    if request.uarch is not None and request.uarch not in chosen.nodes:
        raise BadInput([unknown(f"node type of {chosen.name}", request.uarch, chosen.nodes)])
    return _on_each_other(recipes, chosen, request.uarch or next(iter(chosen.nodes)))


def _recipe(request: ContainerRequest) -> Container:
    """Return the recipe of a request. Raises BadInput for one that names none, or both kinds."""
    if request.recipe is not None:
        if request.base or request.pip or request.name:
            raise BadInput(
                "--from, --pip and --name go without a recipe", hint="write `from:` and `pip:` into a recipe"
            )
        return load_container(request.recipe)
    if not request.base:
        hint = "`uenvtool list containers` shows the recipes; or name an image: --from IMAGE --pip PACKAGE"
        raise BadInput("no recipe is named", hint=hint)
    return _on_image(request)


def _on_image(request: ContainerRequest) -> Container:
    """Return the recipe of an image of somebody else's with Python packages on top."""
    found = _REFERENCE.fullmatch(request.base)
    if found is None:
        raise BadInput(f"--from {request.base}: no tag is named", hint=f"write for example {request.base}:25.06-py3")
    if not request.pip:
        raise BadInput("--from without --pip: nothing would be added", hint="--pip metatrain; it may be given again")
    checked_names(request.pip, "--pip", "--pip metatrain")
    words = [found["image"].rsplit("/", 1)[-1], re.split(r"[\[<>=!~;@ ]", request.pip[0])[0]]
    name = request.name or "-".join(_NOT_IN_A_NAME.sub("-", word.lower()).strip("-") for word in words)
    base = {"image": found["image"], "tag": found["tag"], **({"digest": found["digest"]} if found["digest"] else {})}
    values = {
        "description": f"{', '.join(request.pip)} on {found['image']}:{found['tag']}",
        "base": base,
        "name": name,
        "pip": list(request.pip),
    }
    return container_of(values, name, "command line")


def _on_each_other(recipes: Sequence[Container], system: System, uarch: str) -> ContainerPlan:
    """Return the plan of the first recipe, whose image builds on that of the second one, and so on."""
    first, *rest = recipes
    below = _on_each_other(rest, system, uarch) if rest else None
    return plan_container(first, _components(first), system, uarch, below=below, known=available(COMPONENT))


def _system(name: str | None, home: str) -> System:
    """Return the system that is named, else the one that this is, else the recipe's home."""
    here = recognised() if name is None else None
    chosen = name or (here[0] if here else home) or this_system()
    return on_this_machine(load_system(chosen))


def _down_to_the_base(container: Container) -> list[Container]:
    """Return a recipe, and those whose images it builds on, the nearest first. Raises BadInput for a circle."""
    found = [container]
    while (below := found[-1].from_) is not None:
        found.append(load_container(below.text, below.position))
        names = [recipe.recipe for recipe in found]
        if names[-1] in names[:-1]:
            hint = "one of them must have a `base`"
            raise BadInput(f"`from` goes in a circle: {' -> '.join(names)}", below.position, hint)
    return found


def _components(container: Container) -> dict[str, Component]:
    """Return the components that a recipe names. Raises BadInput with what is wrong in all of them."""
    found: dict[str, Component] = {}
    problems: list[Problem] = []
    for choice in container.components:
        try:
            found[choice.name] = load_component(choice.name, choice.position)
        except BadInput as error:
            problems += error.problems
    BadInput.raise_any(problems)
    return found
