"""The plan of an image: its components in the order in which they can be built, and what each is built with; pure."""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.component import OPTIONS, Component, ConditionalValue, Release, expanded
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.container import Choice, Container
from uenvtool.knowledge.system import System

OUT = "/out"
"""Where the build of a component installs."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A word of a command, and why it is there."""

    word: str
    reason: str = ""


Command = tuple[Argument, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The build of one component.

    needs: every component that is there, in the order in which they are built. env: variables of the build.
    sets: variables of the image.
    """

    component: Component
    release: Release
    needs: tuple[str, ...]
    env: Mapping[str, Argument]
    sets: Mapping[str, str]
    build: tuple[Command, ...]
    check: tuple[Command, ...]

    @property
    def name(self) -> str:
        """Return the name of the component, and of its stage in the Containerfile."""
        return self.component.name


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerPlan:
    """Everything that an image is made of. below: the plan of the image that it builds on, if that is one of ours."""

    container: Container
    system: System
    uarch: str
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
    def versions(self) -> dict[str, str]:
        """Return the version of each component of the image, also of those that it has from below."""
        own = {stage.name: stage.release.version for stage in self.stages}
        return {**(self.below.versions if self.below else {}), **own}


def plan_container(
    container: Container,
    components: Mapping[str, Component],
    system: System,
    uarch: str,
    *,
    below: ContainerPlan | None = None,
    known: Collection[str] = (),
) -> ContainerPlan:
    """Return the plan of a recipe for a system. components: those that it names. known: every component that exists.

    Raises BadInput with everything that is wrong: a version that a component does not have, a component that is
    needed and missing, a circle, two that install one file, a condition about an unknown fact.
    """
    chosen = {choice.name: choice for choice in container.components}
    problems = [
        unknown(f"version of {choice.name}", choice.version, components[choice.name].versions, choice.position)
        for choice in container.components
        if choice.version not in components[choice.name].versions
    ]
    problems += _missing(container, components)
    problems += _of_no_use(container, components, system, uarch)
    problems += _written_twice([components[name] for name in chosen])
    BadInput.raise_any(problems)
    versions = {name: choice.version for name, choice in chosen.items()}
    facts = {**dict.fromkeys(known), **versions, **system.facts(uarch)}
    order = _in_order([components[name] for name in chosen])
    stages = [_stage(components[name], chosen[name], order, components, facts) for name in order]
    return ContainerPlan(container=container, system=system, uarch=uarch, below=below, stages=tuple(stages))


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


def _in_order(components: Sequence[Component]) -> list[str]:
    """Return the names, each behind what it needs, else as the recipe has them. Raises BadInput for a circle."""
    places = {component.name: place for place, component in enumerate(components)}
    needed = {component.name: [need.text for need in component.needs] for component in components}
    sorter = graphlib.TopologicalSorter(needed)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        circle: list[str] = error.args[1][::-1]  # from what needs to what is needed
        first = components[places[circle[0]]]
        position = next(need.position for need in first.needs if need.text == circle[1])
        names = " -> ".join(circle)
        raise BadInput(f"`needs` goes in a circle: {names}", position, "one of them must be built first") from error
    order = []
    ready: set[str] = set()
    while sorter.is_active():
        ready |= set(sorter.get_ready())
        name = min(ready, key=places.__getitem__)
        ready.remove(name)
        order.append(name)
        sorter.done(name)
    return order


def _stage(
    component: Component,
    choice: Choice,
    order: Sequence[str],
    components: Mapping[str, Component],
    facts: Facts,
) -> Stage:
    values = {"version": choice.version, "out": OUT, "cuda_arch": facts.get("cuda_arch") or ""}
    own_facts = {**facts, "version": choice.version}
    options = [
        Argument(expanded(option.value, values), option.reason)
        for option in component.options
        if _holds(option, own_facts)
    ]
    env = {
        name: Argument(expanded(value.value, values), value.reason)
        for name, value in component.env.items()
        if _holds(value, own_facts)
    }
    needed = _needed(component, components)
    return Stage(
        component=component,
        release=component.versions[choice.version],
        needs=tuple(name for name in order if name in needed),
        env=env,
        sets={name: expanded(value.value, values) for name, value in component.sets.items()},
        build=tuple(_command(step.run, step.reason, values, options) for step in component.build),
        check=tuple(_command(run, "", values, options) for run in component.check),
    )


def _needed(component: Component, components: Mapping[str, Component]) -> set[str]:
    found: set[str] = set()
    waiting = [need.text for need in component.needs]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [need.text for need in components[name].needs]
    return found


def _command(run: Sequence[str], reason: str, values: dict[str, str], options: Sequence[Argument]) -> Command:
    words: list[Argument] = []
    for word in run:
        words += options if word == OPTIONS else [Argument(expanded(word, values))]
    return (replace(words[0], reason=reason), *words[1:])


def _holds(entry: ConditionalValue, facts: Facts) -> bool:
    """Tell whether the condition holds. Raises BadInput for one about a fact that there is not."""
    for term in entry.when.terms:
        if term.fact not in facts:
            raise BadInput([unknown("fact", term.fact, facts, entry.position)])
    return bool(entry.when.holds(facts))
