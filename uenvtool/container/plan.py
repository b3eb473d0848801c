"""From a request to the plan of an image: its components in the order of their builds, and the commands of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from uenvtool.container.request import ContainerRequest
from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.component import OPTIONS, Component, ConditionalValue, Release, expanded, load_component
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.container import ChosenComponent, Container, container_of, load_container
from uenvtool.knowledge.kinds import COMPONENT
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.place import on_this_machine
from uenvtool.knowledge.recognise import recognised, this_system
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.settings import runtimes_of
from uenvtool.knowledge.system import System, load_system
from uenvtool.venv.requirements import checked_names

OUT = "/out"
"""Where the build of a component installs."""
_REFERENCE = re.compile(r"(?:docker://)?(?P<image>[^@]+?):(?P<tag>[^:/@]+)(?:@(?P<digest>[^@]+))?")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command, and why it is there."""

    word: str
    reason: str = ""


Step = tuple[Word, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The build of one component.

    needs: every component that is there, in the order in which they are built. env: variables of the build.
    sets: variables of the image.
    """

    component: Component
    release: Release
    needs: tuple[str, ...]
    env: Mapping[str, Word]
    sets: Mapping[str, str]
    build: tuple[Step, ...]
    check: tuple[Step, ...]

    @property
    def name(self) -> str:
        """Return the name of the component, and of its stage in the Containerfile."""
        return self.component.name


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerPlan:
    """Everything that an image is made of.

    runtimes: those of the system. below: the plan of the image that it builds on, if that is one of ours.
    """

    container: Container
    system: System
    uarch: str
    runtimes: tuple[Runtime, ...]
    below: ContainerPlan | None
    stages: tuple[Stage, ...]

    @property
    def name(self) -> str:
        """Return the name of the recipe."""
        return self.container.recipe

    @property
    def foundation(self) -> Container:
        """Return the recipe that has the image of somebody else's."""
        return self.below.foundation if self.below else self.container

    @property
    def kind(self) -> str:
        """Return the kind of image that it is, its own or that of the image below."""
        return self.container.image or (self.below.kind if self.below else "")

    @property
    def tag(self) -> str:
        """Return the tag without the hash."""
        base = self.container.base
        return self.container.tag or (self.below.tag if self.below else base.tag if base else "latest")

    @property
    def edf_reader(self) -> Runtime | None:
        """Return the runtime that reads an EDF, if one does."""
        return next((runtime for runtime in self.runtimes if "edf" in runtime.forms), None)

    @property
    def sif_program(self) -> str:
        """Return the program that makes a .sif where no runtime reads an EDF; empty if none of them runs one."""
        return "" if self.edf_reader else next((runtime.sif for runtime in self.runtimes if runtime.sif), "")

    @property
    def file_name(self) -> str:
        """Return the name of the image as a file: a .sif, or a squashfs file of the Container Engine."""
        return f"{self.container.name}+{self.tag}.{'sif' if self.sif_program else 'sqsh'}"

    @property
    def versions(self) -> dict[str, str]:
        """Return the version of each component of the image, also of those that it has from below."""
        own = {stage.name: stage.release.version for stage in self.stages}
        return {**(self.below.versions if self.below else {}), **own}


def planned(request: ContainerRequest) -> ContainerPlan:
    """Return the plan of a request's recipe and of all that it builds on.

    Without a system it is this one, else the recipe's home. Raises BadInput with everything that is wrong: a version
    that a component does not have, a component that is needed and missing, a circle, two components that install one
    file, a condition about an unknown fact.
    """
    recipes = _down_to_the_base(_recipe(request))
    home = next((recipe.home for recipe in recipes if recipe.home), "")
    system = _system(request.system, home)
    if request.uarch is not None and request.uarch not in system.nodes:
        raise BadInput([unknown(f"node type of {system.name}", request.uarch, system.nodes)])
    uarch = request.uarch or next(iter(system.nodes))
    known = available(COMPONENT)
    runtimes = runtimes_of(system)
    base, *others = recipes[::-1]
    plan = _plan(base, system, uarch, runtimes, below=None, known=known)
    for recipe in others:
        plan = _plan(recipe, system, uarch, runtimes, below=plan, known=known)
    return plan


def _recipe(request: ContainerRequest) -> Container:
    """Return the recipe of a request. Raises BadInput for one that names none, or both kinds."""
    if request.recipe is not None:
        if request.base or request.pip or request.index or request.name:
            raise BadInput(
                "--from, --pip, --index and --name go without a recipe",
                hint="write `from:`, `pip:` and `index:` into a recipe",
            )
        return load_container(request.recipe)
    if not request.base:
        hint = "`uenvtool list containers` shows the recipes; or name an image: --from IMAGE --pip PACKAGE"
        raise BadInput("no recipe is named", hint=hint)
    return _on_image(request)


def _on_image(request: ContainerRequest) -> Container:
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
        "index": list(request.index),
    }
    return container_of(values, name, "command line")


def _system(name: str | None, home: str) -> System:
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


def _plan(
    container: Container,
    system: System,
    uarch: str,
    runtimes: tuple[Runtime, ...],
    *,
    below: ContainerPlan | None,
    known: Collection[str],
) -> ContainerPlan:
    """Return the plan of one recipe. known: every component that exists, whose names conditions may ask for."""
    components = _components(container)
    problems = [
        unknown(f"version of {choice.name}", choice.version, components[choice.name].versions, choice.position)
        for choice in container.components
        if choice.version not in components[choice.name].versions
    ]
    problems += _missing(container, components)
    problems += _of_no_use(container, components, system, uarch)
    problems += _written_twice(list(components.values()))
    BadInput.raise_any(problems)
    chosen = {choice.name: choice for choice in container.components}
    versions = {name: choice.version for name, choice in chosen.items()}
    facts = {**dict.fromkeys(known), **versions, **system.facts(uarch)}
    order = _in_order(components)
    stages = tuple(_stage(components[name], chosen[name], order, components, facts) for name in order)
    return ContainerPlan(container=container, system=system, uarch=uarch, runtimes=runtimes, below=below, stages=stages)


def unlocked(plan: ContainerPlan) -> Iterator[Problem]:
    """Yield what an image takes without a checksum, also in the images that it builds on."""
    if plan.below:
        yield from unlocked(plan.below)
    base = plan.container.base
    if base and not base.digest:
        why = base.unpinned or "the recipe names none"
        hint = f"add `digest:` with what this prints: `skopeo inspect --format '{{{{.Digest}}}}' docker://{base.reference}`"
        yield Problem(f"{base.reference} has no digest: {why}", base.position, hint)
    for stage in plan.stages:
        if not stage.release.checksum:
            kind = "commit" if stage.release.git else "sha256"
            hint = f"add `{kind}:` with the one of {stage.release.address}, and where you read it"
            message = f"{stage.name} {stage.release.version} has no checksum: {stage.release.unchecked}"
            yield Problem(message, stage.release.position, hint)


def _missing(container: Container, components: Mapping[str, Component]) -> Iterator[Problem]:
    for choice in container.components:
        for need in components[choice.name].needs:
            if need.text not in components:
                hint = f"{need.position} asks for it: add `{need.text}: VERSION` to `components`"
                yield Problem(f"{choice.name} needs {need.text}, which the recipe does not have", choice.position, hint)


def _of_no_use(
    container: Container, components: Mapping[str, Component], system: System, uarch: str
) -> Iterator[Problem]:
    """Yield the components that are for another network than the system's: beside it they would set NCCL up wrongly."""
    facts = system.facts(uarch)
    for choice in container.components:
        wanted = components[choice.name].when
        if wanted.holds(facts) is False:
            has = ", ".join(f"{term.fact} {facts.get(term.fact) or 'none'}" for term in wanted.terms)
            hint = "leave it out in a recipe for this system: NCCL reaches InfiniBand by itself, and MPI through ucx"
            yield Problem(f"{choice.name} is for {wanted}; {system.name} has {has}", choice.position, hint)


def _written_twice(components: Sequence[Component]) -> Iterator[Problem]:
    for one, other in combinations(components, 2):
        for first in one.installs:
            for second in other.installs:
                if _can_meet(first.text, second.text):
                    yield Problem(
                        f"{other.name} installs {second.text}, and {one.name} installs {first.text}",
                        second.position,
                        f"{first.position} is the other one: no file can be of two components",
                    )


def _can_meet(one: str, other: str) -> bool:
    """Tell if a file can be at both paths, or below them: a path stands for all that is in it, too."""
    return all(_alike(left, right) for left, right in zip(one.split("/"), other.split("/"), strict=False))


@cache
def _alike(one: str, other: str) -> bool:
    if not one or not other:
        return not (one + other).strip("*")
    if one[0] == "*" or other[0] == "*":
        star, fixed = (one, other) if one[0] == "*" else (other, one)
        return _alike(star[1:], fixed) or _alike(star, fixed[1:])
    return (one[0] == other[0] or "?" in (one[0], other[0])) and _alike(one[1:], other[1:])


def _in_order(components: Mapping[str, Component]) -> list[str]:
    """Return the names, each behind what it needs, else as the recipe has them. Raises BadInput for a circle."""
    order: list[str] = []
    for name in components:
        _append(name, components, order, path=())
    return order


def _append(name: str, components: Mapping[str, Component], order: list[str], path: tuple[str, ...]) -> None:
    """Append what a component needs, then itself. path: the components that led to it."""
    if name in order:
        return
    path = (*path, name)
    for need in components[name].needs:
        if need.text in path:
            circle = " -> ".join([name, *path[path.index(need.text) :]])
            raise BadInput(f"`needs` goes in a circle: {circle}", need.position, "one of them must be built first")
        _append(need.text, components, order, path)
    order.append(name)


def _stage(
    component: Component,
    choice: ChosenComponent,
    order: Sequence[str],
    components: Mapping[str, Component],
    facts: Facts,
) -> Stage:
    values = {"version": choice.version, "out": OUT, "cuda_arch": facts.get("cuda_arch") or ""}
    own_facts = {**facts, "version": choice.version}
    options = [
        Word(expanded(option.value, values), option.reason) for option in component.options if _holds(option, own_facts)
    ]
    env = {
        name: Word(expanded(value.value, values), value.reason)
        for name, value in component.env.items()
        if _holds(value, own_facts)
    }
    needed = _needed(component.name, components)
    return Stage(
        component=component,
        release=component.versions[choice.version],
        needs=tuple(name for name in order if name in needed),
        env=env,
        sets={name: expanded(value.value, values) for name, value in component.sets.items()},
        build=tuple(_command(step.run, step.reason, values, options) for step in component.build),
        check=tuple(_command(run, "", values, options) for run in component.check),
    )


def _needed(name: str, components: Mapping[str, Component]) -> set[str]:
    """Return all that a component needs, also by way of others."""
    direct = {need.text for need in components[name].needs}
    return direct.union(*(_needed(need, components) for need in direct))


def _command(run: Sequence[str], reason: str, values: dict[str, str], options: Sequence[Word]) -> Step:
    words: list[Word] = []
    for word in run:
        words += options if word == OPTIONS else [Word(expanded(word, values))]
    return (replace(words[0], reason=reason), *words[1:])


def _holds(entry: ConditionalValue, facts: Facts) -> bool:
    """Tell whether the condition holds. Raises BadInput for one about a fact that there is not."""
    for term in entry.when.terms:
        if term.fact not in facts:
            raise BadInput([unknown("fact", term.fact, facts, entry.position)])
    return bool(entry.when.holds(facts))
