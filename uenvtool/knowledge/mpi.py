"""The MPI of a recipe on a system: one that the system offers, or one that the recipe builds."""

from __future__ import annotations

from dataclasses import dataclass

from uenvtool.core.errors import BadInput, Position
from uenvtool.knowledge.checks import hard_requests
from uenvtool.knowledge.condition import Facts
from uenvtool.knowledge.recipe import Recipe
from uenvtool.knowledge.spec import parse_spec
from uenvtool.knowledge.system import Mpi, System
from uenvtool.knowledge.version import Version, Versions, versions


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenMpi:
    """The MPI of a recipe on a system. position: The position in the file that offers or names it.

    is_own: Whether the recipe builds the MPI because the system offers no MPI that the recipe names.
    """

    package: str
    version: Versions | None
    variants: str
    reason: str
    position: Position
    is_own: bool

    @property
    def text(self) -> str:
        version = f"@{self.version}" if self.version else ""
        return f"{self.package}{version} {self.variants}".strip()


def facts_with_mpi(recipe: Recipe, system: System, uarch: str) -> Facts:
    """Return the facts of a node type, with the recipe's MPI on this system as the fact `mpi`."""
    facts = system.facts(uarch)
    return {**facts, "mpi": _provider_of(recipe, system) or facts["mpi"]}


def choose_mpi(recipe: Recipe, system: System, facts: Facts) -> ChosenMpi | None:
    """Return the system's first MPI that the recipe accepts, in the published version or else the first that fits.

    Return None if the recipe has no MPI, or if it accepts any MPI and the system offers none.

    Raises BadInput if no version fits, or if the recipe requires another provider of MPI.
    """
    package = _provider_of(recipe, system)
    if package is None:
        return None
    pin = (recipe.mpi or {}).get(package)
    required = recipe.require.get("mpi")
    provider = parse_spec(required.provider).package if required and required.provider else package
    if required and provider != package:
        raise BadInput(
            f"{recipe.name} requires {required.provider} as MPI, but its MPI on {system.name} is {package}",
            required.position,
            f"write `mpi: {{{provider}: VERSION}}` instead of this requirement",
        )
    offered = next((mpi for mpi in system.mpi if mpi.package == package), None)
    version = pin.version if pin else None
    if offered and offered.versions:
        version = versions(f"={_version(recipe, system, offered, facts)}")
    named = offered or pin
    return ChosenMpi(
        package=package,
        version=version,
        variants=pin.variants if pin else "",
        reason=(offered.reason if offered else "") or (pin.reason if pin else ""),
        position=named.position if named else system.tree.position,
        is_own=offered is None,
    )


def _provider_of(recipe: Recipe, system: System) -> str | None:
    if recipe.mpi is None:
        return None
    offered = [mpi.package for mpi in system.mpi]
    named = recipe.mpi or offered
    return next((package for package in (*offered, *named) if package in named), None)


def _version(recipe: Recipe, system: System, offered: Mpi, facts: Facts) -> Version:
    bounds = [request for request in hard_requests(recipe, facts) if request.package == offered.package]
    fitting = [version for version in offered.versions if all(bound.versions.contains(version) for bound in bounds)]
    if not fitting:
        places = " and ".join(dict.fromkeys(str(bound.position) for bound in bounds))
        required = ", ".join(dict.fromkeys(f"{offered.package}@{bound.versions}" for bound in bounds))
        raise BadInput(
            f"{recipe.name} needs {required}, but {system.name} has {', '.join(map(str, offered.versions))}",
            offered.position,
            f"add a version under `mpi: versions:` of the system, or change the request at {places}",
        )
    table = recipe.published.table.versions_of() if recipe.published and recipe.published.prefer else {}
    published = [version for version in fitting if str(version) in table.get(offered.package, ())]
    return [*published, *fitting][0]
