"""Package settings of a node type: the requirements of its fabric and the settings in its system file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from uenvtool.core.errors import BadInput, Position, Problem, unknown
from uenvtool.env.environment import Constraint, Root
from uenvtool.knowledge.checks import hard_requests
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.fabric import load_fabric
from uenvtool.knowledge.mpi import ChosenMpi
from uenvtool.knowledge.recipe import Pin, Recipe
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import External, System, SystemPackage

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")


def filled(text: str, facts: Facts, position: Position) -> str:
    """Return the text with each ${fact} replaced by its value. Raises BadInput if a fact is unknown or has no value."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in facts:
            raise BadInput([unknown("fact", name, facts, position)])
        known = facts[name]
        if known is None:
            raise BadInput(
                f"${{{name}}} has no value on {facts.get('system')}, node type {facts.get('uarch')}",
                position,
                "give the entry a condition, for example `when: gpu == nvidia`",
            )
        return known

    return _PLACEHOLDER.sub(value, text)


def network_needs(system: System, mpi: ChosenMpi | None, facts: Facts) -> dict[str, SystemPackage]:
    """Return the packages that the system's fabric needs, with the variants that enable support for its GPUs."""
    fabric = load_fabric(system.fabric)
    gpu_variants = filled(fabric.gpu.get(facts["gpu"] or "", ""), facts, system.tree.position)
    needs = fabric.needs(mpi.package if mpi else None)
    return {name: replace(need, variants=gpu_variants) for name, need in needs.items()}


def packages_of_node(
    system: System, mpi: ChosenMpi | None, needs: Mapping[str, SystemPackage], facts: Facts
) -> dict[str, SystemPackage]:
    """Return the package settings of the system file, which take precedence over the needs of its fabric.

    Settings of MPI packages other than the chosen one are left out.
    """
    unused_mpis = {offered.package for offered in system.mpi} - {mpi.package} if mpi else set()
    settings = {
        name: replace(
            package,
            externals=tuple(
                _filled_external(external, facts) for external in package.externals if external.when.holds(facts)
            ),
            require=tuple(filled(requirement, facts, package.position) for requirement in package.require),
            prefer_strongly=tuple(filled(text, facts, package.position) for text in package.prefer_strongly),
        )
        for name, package in system.packages.items()
        if name not in unused_mpis
    }
    merged = {name: settings[name].over(need) if name in settings else need for name, need in needs.items()}
    return {**settings, **merged}


def _filled_external(external: External, facts: Facts) -> External:
    text = filled(external.spec.text, facts, external.position)
    return external if text == external.spec.text else replace(external, spec=parse_spec(text))


def unavailable_versions(
    recipe: Recipe, system: System, mpi: ChosenMpi | None, node_packages: Mapping[str, SystemPackage], facts: Facts
) -> Iterator[Problem]:
    """Yield a problem for each required package that only the system provides, if it lacks the required version."""
    provided = {name: package for name, package in node_packages.items() if package.buildable is False}
    if mpi and mpi.is_own and mpi.package in provided and not provided[mpi.package].externals:
        offered = ", ".join(choice.package for choice in system.mpi) or "none"
        yield Problem(
            f"{recipe.name} needs {mpi.text}, which cannot be built ({provided[mpi.package].reason}), "
            f"and {system.name} offers only {offered}",
            mpi.position,
            "use an MPI that the system offers, or one that Spack can build, such as openmpi",
        )
    for request in hard_requests(recipe, facts):
        package = provided.get(request.package)
        known = [external.spec.versions for external in package.externals] if package else []
        if package and known and not any(have is None or have.intersects(request.versions) for have in known):
            yield Problem(
                f"{recipe.name} needs {request.package}@{request.versions}, but {system.name} has only "
                f"{', '.join(map(str, known))} and cannot build another version",
                request.position,
                f"require one of these versions, or add an external at {package.position}",
            )


def preferences(
    package: SystemPackage, everywhere: Sequence[Constraint], root: Root | None, pin: Pin | None
) -> tuple[str, tuple[str, ...]]:
    """Return the preferred variants of a package and its strong preferences.

    Variants that all packages prefer, or that the root spec or a pin sets already, are left out. Spack replaces the
    variants of `all` by those of the package, so the result includes the variants of `all`. Spack ignores a variant
    in `variants` that the package does not have, but reports an error for one in `prefer`.
    """
    of_all = " ".join(variant.text for variant in everywhere)
    known = {
        name for text in (of_all, root.text if root else "", pin.variants if pin else "") for name in _variants(text)
    }
    is_versioned = bool((root and root.version) or (pin and pin.version))
    adds_variants = not _variants(package.variants).keys() <= known
    needs_join = adds_variants and of_all
    joined = parse_spec(package.variants).over(parse_spec(of_all)).text if needs_join else package.variants
    strongly = [(text, parse_spec(text)) for text in package.prefer_strongly]
    return joined if adds_variants else "", tuple(
        text
        for text, spec in strongly
        if (spec.versions is None or not is_versioned) and not (spec.words and spec.words.keys() <= known)
    )


def _variants(text: str) -> dict[str, str]:
    return parse_spec(text).words if text else {}
