"""A fabric: the software requirements of one kind of network, which apply on every system with this network."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from uenvtool.core.errors import BadInput, Position, Problem
from uenvtool.knowledge.bind import bound
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.facts import SYSTEM_FACTS, filled
from uenvtool.knowledge.kinds import FABRIC
from uenvtool.knowledge.locate import available, locate
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import External, System, SystemPackage


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """The requirements of every environment on one kind of network."""

    packages: dict[str, SystemPackage] = field(default_factory=dict)
    mpi: dict[str, SystemPackage] = field(default_factory=dict)
    roots: dict[str, SystemPackage] = field(default_factory=dict)
    gpu: dict[str, str] = field(default_factory=dict)


def load_fabric(name: str) -> Fabric:
    """Return the fabric with this name or path. If no file describes the fabric, it has no requirements.

    Raises BadInput with all problems in the file.
    """
    if "/" not in name and name not in available(FABRIC):
        return Fabric()
    return bound(Fabric, locate(FABRIC, name), FABRIC, facts=SYSTEM_FACTS)


def network_needs(
    system: System,
    facts: Facts,
    *,
    mpi: str | None = None,
    set_by: Mapping[str, Collection[str]] | None = None,
    preferred: Collection[str] = (),
) -> dict[str, SystemPackage]:
    """Return the requirements of a system's fabric on a node with these facts, by package.

    mpi: The MPI of the environment. Without it, the result contains the requirements of all MPIs.
    set_by: For each package that the recipe requests, the specs that set its variants. Without it, the result contains
        the requirements for any recipe. A recipe without an MPI gets no defaults of MPIs.
    preferred: The variants that the recipe prefers for all packages.
    """
    fabric, requested = load_fabric(system.fabric), set_by or {}
    variants = filled(fabric.gpu.get(facts["gpu"] or "", ""), facts, system.tree.position)
    needs = {**fabric.packages, **{name: need for name, need in fabric.mpi.items() if mpi in (None, name)}}
    if mpi is None and set_by is not None:
        needs = {name: replace(need, defaults=()) for name, need in needs.items()}
    needs |= {
        name: need.without_defaults_for(preferred)
        for name, need in fabric.roots.items()
        if set_by is None or name in set_by
    }
    for name, need in needs.items():
        left = need.without_defaults_for(requested.get(name, ())).defaults or ()
        fitting = (default for default in left if default.when.holds(facts))
        defaults = tuple(replace(each, spec=filled(each.spec, facts, each.position)) for each in fitting)
        needs[name] = replace(need, variants=variants, defaults=defaults)
    return needs


def node_packages(
    system: System, facts: Facts, needs: Mapping[str, SystemPackage], unused: Collection[str] = ()
) -> dict[str, SystemPackage]:
    """Return the package settings of the system file, which take precedence over the needs of the system's fabric.

    unused: The MPI packages that the environment does not use, which the result omits.
    """
    settings = {
        name: replace(
            package,
            externals=tuple(_filled(external, facts) for external in package.externals if external.when.holds(facts)),
            require=tuple(filled(requirement, facts, package.position) for requirement in package.require),
            prefer_strongly=tuple(filled(text, facts, package.position) for text in package.prefer_strongly),
        )
        for name, package in system.packages.items()
        if name not in unused
    }
    merged = {name: settings[name].over(need) if name in settings else need for name, need in needs.items()}
    return {**settings, **merged}


def _filled(external: External, facts: Facts) -> External:
    text = filled(external.spec.text, facts, external.position)
    return external if text == external.spec.text else replace(external, spec=parse_spec(text))


def unusable_packages(system: System) -> list[Problem]:
    """Return a problem for each package setting that a build on some node type could not use.

    The problems are values that a node type does not have, and packages that neither Spack nor the system provides. An
    external is a problem if the fabric or the system excludes it on all node types, so that Spack never uses it.
    """
    problems: list[Problem] = []
    unmet: dict[Position, list[list[Problem]]] = {}
    for uarch in system.nodes:
        facts = system.facts(uarch)
        try:
            needs = network_needs(system, facts)
            packages = node_packages(system, facts, needs)
        except BadInput as error:
            problems += error.problems
            continue
        problems += _not_provided(system, packages)
        for name, package in packages.items():
            for external in package.externals:
                need = needs.get(name)
                excluded = [*_excluded(system, external, package, need.require if need else ())]
                unmet.setdefault(external.position, []).append(excluded)
    problems += [problem for of_nodes in unmet.values() if all(of_nodes) for problem in of_nodes[0]]
    return list(dict.fromkeys(problems))


def _not_provided(system: System, packages: Mapping[str, SystemPackage]) -> Iterator[Problem]:
    for offered in system.mpi:
        mpi = packages.get(offered.package)
        needed = {each.external: f"{offered.package} needs {each.spec}" for each in (mpi and mpi.defaults) or ()}
        if mpi and mpi.buildable is False:
            needed[mpi.name] = f"Spack cannot build {mpi.name}"
        for name, why in needed.items():
            if name and not (name in packages and packages[name].externals):
                entry = f"{name}: {{buildable: false, externals: [{{spec: {name}@VERSION, prefix: /usr}}]}}"
                hint = f"add the installation of the nodes to `packages` of the system:\n  {entry}"
                yield Problem(f"{why}, but {system.name} does not provide {name}", offered.position, hint)


def _excluded(
    system: System, external: External, package: SystemPackage, by_fabric: Collection[str]
) -> Iterator[Problem]:
    lacking = [*package.unmet(external)]
    usable = functools.reduce(lambda spec, unmet: unmet.over(spec), lacking, external.spec)
    for unmet in lacking:
        owner = system.fabric if unmet.text in by_fabric else system.name
        what = f"{external.spec.text} does not have {unmet.text}, which {owner} requires: Spack never uses it"
        hint = "remove this external, or name an installation that has the required version"
        if unmet.words:
            hint = f"if the installation has it, write `spec: {usable.text}`"
        yield Problem(what, external.position, hint)
