"""Plans a container image: the components in build order, with the commands that build and check each one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

from uenvtool.container.request import ContainerRequest
from uenvtool.core.errors import BadInput, Problem, unknown
from uenvtool.knowledge.component import OPTIONS, Component, ConditionalValue, Release, expanded, load_component
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.container import Container, container_of, load_container
from uenvtool.knowledge.kinds import COMPONENT
from uenvtool.knowledge.locate import available
from uenvtool.knowledge.place import on_this_machine
from uenvtool.knowledge.recognise import recognised, this_system
from uenvtool.knowledge.runtime import Runtime
from uenvtool.knowledge.secrets import storable
from uenvtool.knowledge.settings import runtimes_of
from uenvtool.knowledge.system import System, load_system
from uenvtool.venv.requirements import checked_names

OUT = "/out"
"""The directory that the build of a component installs into."""
_REFERENCE = re.compile(r"(?:docker://)?(?P<image>[^@]+?):(?P<tag>[^:/@]+)(?:@(?P<digest>[^@]+))?")
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Word:
    """An argument of a command, with the reason for the argument."""

    word: str
    reason: str = ""


Step = tuple[Word, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The build stage of one component.

    needs: the direct and indirect dependencies of the component, in build order. env: the variables for the build.
    sets: the variables that the stage sets in the image.
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
        return self.component.name


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerPlan:
    """The plan of an image.

    runtimes: the system's runtimes. below: the base image's plan, if uenvtool builds it. has_secrets: whether the
    recipes contain secrets, which the plan leaves out.
    """

    container: Container
    system: System
    uarch: str
    runtimes: tuple[Runtime, ...]
    below: ContainerPlan | None
    stages: tuple[Stage, ...]
    has_secrets: bool = False

    @property
    def name(self) -> str:
        return self.container.recipe

    @property
    def foundation(self) -> Container:
        """The recipe with the external base image: this recipe, or the lowest one in its chain of bases."""
        return self.below.foundation if self.below else self.container

    @property
    def kind(self) -> str:
        """The kind of the image, from its recipe or from the image that it builds on."""
        return self.container.image or (self.below.kind if self.below else "")

    @property
    def tag(self) -> str:
        base = self.container.base
        return self.container.tag or (self.below.tag if self.below else base.tag if base else "latest")

    @property
    def edf_reader(self) -> Runtime | None:
        """The runtime of the system that reads an EDF, or None."""
        return next((runtime for runtime in self.runtimes if "edf" in runtime.forms), None)

    @property
    def sif_program(self) -> str:
        """The program that makes a .sif file, or "" if a runtime reads an EDF or no runtime runs .sif files."""
        return "" if self.edf_reader else next((runtime.sif for runtime in self.runtimes if runtime.sif), "")

    @property
    def file_name(self) -> str:
        """The file name of the image: a .sif file, or a squashfs file for the Container Engine."""
        return f"{self.container.name}+{self.tag}.{'sif' if self.sif_program else 'sqsh'}"

    @property
    def edf_name(self) -> str:
        return f"{self.container.name}.toml"

    @property
    def versions(self) -> dict[str, str]:
        """The version of each component of the image, including those of the image that it builds on."""
        built = {stage.name: stage.release.version for stage in self.stages}
        return {**(self.below.versions if self.below else {}), **built}


def planned(request: ContainerRequest) -> ContainerPlan:
    """Return the plan of a request's recipe and of the recipes that it builds on. Raises BadInput with all problems.

    The default system is the current system, or else the recipe's home system.
    """
    recipes_with_secrets = _with_bases(_recipe(request))
    recipes = storable(recipes_with_secrets)
    home = next((recipe.home for recipe in recipes if recipe.home), "")
    system = _system(request.system, home)
    if request.uarch is not None and request.uarch not in system.nodes:
        raise BadInput([unknown(f"node type of {system.name}", request.uarch, system.nodes)])
    uarch = request.uarch or next(iter(system.nodes))
    base, *others = reversed(recipes)
    plan = _plan(base, system, uarch, below=None)
    for recipe in others:
        plan = _plan(recipe, system, uarch, below=plan)
    return replace(plan, has_secrets=recipes != recipes_with_secrets)


def _recipe(request: ContainerRequest) -> Container:
    if request.recipe is not None:
        given = {"--from": request.base, "--pip": request.pip, "--index": request.index, "--name": request.name}
        options = [option for option, value in given.items() if value]
        if options:
            hint = "write `from:`, `pip:`, `index:` or `name:` into the recipe instead"
            raise BadInput(f"{', '.join(options)}: cannot be combined with a recipe", hint=hint)
        return load_container(request.recipe)
    if not request.base:
        hint = "name a recipe (see `uenvtool list containers`), or an image: --from IMAGE:TAG --pip PACKAGE"
        raise BadInput("neither a recipe nor --from is given", hint=hint)
    return _on_image(request)


def _on_image(request: ContainerRequest) -> Container:
    match = _REFERENCE.fullmatch(request.base)
    if match is None:
        raise BadInput(f"--from '{request.base}': the tag is missing", hint=f"for example {request.base}:25.06-py3")
    if not request.pip:
        raise BadInput("--from requires --pip", hint="name the packages to add, for example --pip metatrain")
    checked_names(request.pip, "--pip", "--pip metatrain")
    parts = [match["image"].rsplit("/", 1)[-1], re.split(r"[\[<>=!~;@ ]", request.pip[0])[0]]
    name = request.name or "-".join(_NOT_IN_A_NAME.sub("-", part.lower()).strip("-") for part in parts)
    base = {"image": match["image"], "tag": match["tag"], **({"digest": match["digest"]} if match["digest"] else {})}
    values = {
        "description": f"{', '.join(request.pip)} on {match['image']}:{match['tag']}",
        "base": base,
        "name": name,
        "pip": list(request.pip),
        "index": list(request.index),
    }
    return container_of(values, name, "command line")


def _system(name: str | None, home: str) -> System:
    this_machine = recognised() if name is None else None
    chosen = name or (this_machine[0] if this_machine else home) or this_system()
    return on_this_machine(load_system(chosen))


def _with_bases(container: Container) -> list[Container]:
    recipes = [container]
    while (below := recipes[-1].from_) is not None:
        recipes.append(load_container(below.text, below.position))
        names = [recipe.recipe for recipe in recipes]
        if names[-1] in names[:-1]:
            hint = "replace `from` with `base` in one of these recipes"
            raise BadInput(f"`from` has a cycle: {' -> '.join(names)}", below.position, hint)
    return recipes


def _plan(container: Container, system: System, uarch: str, *, below: ContainerPlan | None) -> ContainerPlan:
    components: dict[str, Component] = {}
    unreadable: list[Problem] = []
    problems: list[Problem] = []
    for choice in container.components:
        try:
            component = components[choice.name] = storable(load_component(choice.name, choice.position))
        except BadInput as error:
            unreadable += error.problems
            continue
        if choice.version not in component.versions:
            problems.append(unknown(f"version of {choice.name}", choice.version, component.versions, choice.position))
    BadInput.raise_any(unreadable)
    problems += _missing(container, components)
    problems += _for_another_network(container, components, system.name, system.facts(uarch))
    problems += _overlapping_installs(list(components.values()))
    BadInput.raise_any(problems)
    versions = {choice.name: choice.version for choice in container.components}
    facts = {**dict.fromkeys(available(COMPONENT)), **versions, **system.facts(uarch)}  # of any component
    order = _in_order(components)
    return ContainerPlan(
        container=container,
        system=system,
        uarch=uarch,
        runtimes=runtimes_of(system),
        below=below,
        stages=tuple(_stage(name, versions[name], order, components, facts) for name in order),
    )


def unlocked(plan: ContainerPlan) -> Iterator[Problem]:
    """Yield a problem for each input without a checksum, including inputs of the images that the plan builds on."""
    if plan.below:
        yield from unlocked(plan.below)
    base = plan.container.base
    if base and not base.digest:
        reason = f" ({base.unpinned})" if base.unpinned else ""
        hint = f"add `digest:` with the output of `skopeo inspect --format '{{{{.Digest}}}}' docker://{base.reference}`"
        yield Problem(f"{base.reference} has no digest{reason}", base.position, hint)
    for stage in plan.stages:
        if not stage.release.checksum:
            kind = "commit" if stage.release.git else "sha256"
            hint = f"add `{kind}:` for {stage.release.address}, and name the source of the checksum"
            message = f"{stage.name} {stage.release.version} has no checksum ({stage.release.unchecked})"
            yield Problem(message, stage.release.position, hint)


def _missing(container: Container, components: Mapping[str, Component]) -> Iterator[Problem]:
    for choice in container.components:
        for need in components[choice.name].needs:
            if need.text not in components:
                hint = f"add `{need.text}: VERSION` to `components`; {need.position} requires it"
                yield Problem(f"{choice.name} needs {need.text}, which is not in the recipe", choice.position, hint)


def _for_another_network(
    container: Container, components: Mapping[str, Component], system: str, facts: Facts
) -> Iterator[Problem]:
    for choice in container.components:
        condition = components[choice.name].when
        if condition.holds(facts) is False:
            actual = ", ".join(f"{term.fact} {facts.get(term.fact) or 'none'}" for term in condition.terms)
            hint = "remove it from the recipe for this system: NCCL supports InfiniBand itself, and MPI uses ucx"
            yield Problem(f"{choice.name} is for {condition}, but {system} has {actual}", choice.position, hint)


def _overlapping_installs(components: Sequence[Component]) -> Iterator[Problem]:
    for earlier, later in combinations(components, 2):
        for first in earlier.installs:
            for second in later.installs:
                if _can_overlap(first.text, second.text):
                    yield Problem(
                        f"{later.name} installs {second.text}, and {earlier.name} installs {first.text}",
                        second.position,
                        f"change this path or the one at {first.position}, so that no file belongs to two components",
                    )


def _can_overlap(first: str, second: str) -> bool:
    # without the components of the longer pattern, since a pattern also matches everything inside a directory
    return all(_can_equal(left, right) for left, right in zip(first.split("/"), second.split("/"), strict=False))


@cache
def _can_equal(first: str, second: str) -> bool:
    if not first or not second:
        return not (first + second).strip("*")
    if first[0] == "*" or second[0] == "*":
        star, fixed = (first, second) if first[0] == "*" else (second, first)
        return _can_equal(star[1:], fixed) or _can_equal(star, fixed[1:])
    return (first[0] == second[0] or "?" in (first[0], second[0])) and _can_equal(first[1:], second[1:])


def _in_order(components: Mapping[str, Component]) -> list[str]:
    order: list[str] = []

    def append(name: str, path: tuple[str, ...]) -> None:
        if name in order:
            return
        for need in components[name].needs:
            if need.text in path:
                cycle = " -> ".join([name, *path[path.index(need.text) :]])
                hint = "remove one of these entries from `needs`"
                raise BadInput(f"`needs` has a cycle: {cycle}", need.position, hint)
            append(need.text, (*path, need.text))
        order.append(name)

    for name in components:  # in the order of the recipe
        append(name, (name,))
    return order


def _stage(name: str, version: str, order: Sequence[str], components: Mapping[str, Component], facts: Facts) -> Stage:
    component = components[name]
    values = {"version": version, "out": OUT, "cuda_arch": facts.get("cuda_arch") or ""}
    component_facts = {**facts, "version": version}

    def word(value: ConditionalValue) -> Word:
        return Word(expanded(value.value, values), value.reason)

    options = [word(option) for option in component.options if _holds(option, component_facts)]
    env = {name: word(value) for name, value in component.env.items() if _holds(value, component_facts)}
    needed = _needed(name, components)
    return Stage(
        component=component,
        release=component.versions[version],
        needs=tuple(name for name in order if name in needed),
        env=env,
        sets={name: expanded(value.value, values) for name, value in component.sets.items()},
        build=tuple(_command(step.run, step.reason, values, options) for step in component.build),
        check=tuple(_command(run, "", values, options) for run in component.check),
    )


def _needed(name: str, components: Mapping[str, Component]) -> set[str]:
    direct = {need.text for need in components[name].needs}
    return direct.union(*(_needed(need, components) for need in direct))


def _command(run: Sequence[str], reason: str, values: dict[str, str], options: Sequence[Word]) -> Step:
    words: list[Word] = []
    for word in run:
        words += options if word == OPTIONS else [Word(expanded(word, values))]
    return (replace(words[0], reason=reason), *words[1:])


def _holds(entry: ConditionalValue, facts: Facts) -> bool:
    for term in entry.when.terms:
        if term.fact not in facts:
            raise BadInput([unknown("fact", term.fact, facts, entry.position)])
    return bool(entry.when.holds(facts))
