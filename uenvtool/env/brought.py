"""What a node type brings of packages: what its fabric needs, and what its system says."""

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
    """Return the text with each ${fact} replaced by its value. Raises BadInput if there is none."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in facts:
            raise BadInput([unknown("fact", name, facts, position)])
        found = facts[name]
        if found is None:
            raise BadInput(
                f"${{{name}}} has no value on {facts.get('system')}, node type {facts.get('uarch')}",
                position,
                "give the entry a condition, for example `when: gpu == nvidia`",
            )
        return found

    return _PLACEHOLDER.sub(value, text)


def network_needs(system: System, mpi: ChosenMpi | None, facts: Facts) -> dict[str, SystemPackage]:
    """Return what the system's fabric requires of packages, with the variants by which they reach its GPUs."""
    fabric = load_fabric(system.fabric)
    of_gpu = filled(fabric.gpu.get(facts["gpu"] or "", ""), facts, system.tree.position)
    return {name: replace(need, variants=of_gpu) for name, need in fabric.needs(mpi.package if mpi else None).items()}


def brought_here(
    system: System, mpi: ChosenMpi | None, needs: Mapping[str, SystemPackage], facts: Facts
) -> dict[str, SystemPackage]:
    """Return what the system says of packages, over what its fabric needs; of MPIs of the chosen one alone."""
    others = {offered.package for offered in system.mpi} - {mpi.package} if mpi else set()
    own = {
        name: replace(
            package,
            externals=tuple(
                _filled_external(external, facts) for external in package.externals if external.when.holds(facts)
            ),
            require=tuple(filled(requirement, facts, package.position) for requirement in package.require),
            prefer_strongly=tuple(filled(text, facts, package.position) for text in package.prefer_strongly),
        )
        for name, package in system.packages.items()
        if name not in others
    }
    return {**own, **{name: own[name].over(need) if name in own else need for name, need in needs.items()}}


def _filled_external(external: External, facts: Facts) -> External:
    text = filled(external.spec.text, facts, external.position)
    return external if text == external.spec.text else replace(external, spec=parse_spec(text))


def had_by_nobody(
    recipe: Recipe, system: System, mpi: ChosenMpi | None, brought: Mapping[str, SystemPackage], facts: Facts
) -> Iterator[Problem]:
    """Yield what a recipe requires of packages that are the system's alone, in other versions or not at all."""
    alone = {name: package for name, package in brought.items() if package.buildable is False}
    if mpi and mpi.is_own and mpi.package in alone and not alone[mpi.package].externals:
        offered = ", ".join(one.package for one in system.mpi) or "none"
        yield Problem(
            f"{recipe.name} needs {mpi.text}, which cannot be built: {alone[mpi.package].reason}; "
            f"{system.name} offers {offered}",
            mpi.position,
            "take an MPI that the system offers, or one that can be built, such as openmpi",
        )
    for request in hard_requests(recipe, facts):
        package = alone.get(request.package)
        known = [external.spec.versions for external in package.externals] if package else []
        if package and known and not any(have is None or have.intersects(request.versions) for have in known):
            yield Problem(
                f"{recipe.name} needs {request.package}@{request.versions}; {system.name} has "
                f"{', '.join(map(str, known))} and builds no other",
                request.position,
                f"change it, or what the system has, at {package.position}",
            )


def preferences(
    package: SystemPackage, everywhere: Sequence[Constraint], root: Root | None, pin: Pin | None
) -> tuple[str, tuple[str, ...]]:
    """Return the variants that are preferred of a package, and what is strongly, as far as it is not said already.

    It is by what all packages prefer, by its root spec or by a pin. To Spack a package's variants stand in place of
    those of all, so these are among them; what it does not have is passed over in them, and an error in the others.
    """
    of_all = " ".join(variant.text for variant in everywhere)
    words = {name for text in (of_all, root.text if root else "", pin.variants if pin else "") for name in _words(text)}
    is_versioned = bool((root and root.version) or (pin and pin.version))
    says_more = not _words(package.variants).keys() <= words
    joined = parse_spec(package.variants).over(parse_spec(of_all)).text if says_more and of_all else package.variants
    strongly = [(text, parse_spec(text)) for text in package.prefer_strongly]
    return joined if says_more else "", tuple(
        text
        for text, spec in strongly
        if (spec.versions is None or not is_versioned) and not (spec.words and spec.words.keys() <= words)
    )


def _words(text: str) -> dict[str, str]:
    return parse_spec(text).words if text else {}
