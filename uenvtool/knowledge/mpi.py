"""The MPI of a recipe on a system: one that the system offers, or the recipe's own."""

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
    """An MPI. is_own: the recipe brings it, and the system offers none that it names. position: what offers it."""

    package: str
    version: Versions | None
    variants: str
    reason: str
    position: Position
    is_own: bool

    @property
    def text(self) -> str:
        """Return it as a spec."""
        version = f"@{self.version}" if self.version else ""
        return f"{self.package}{version} {self.variants}".strip()


def facts_with_mpi(recipe: Recipe, system: System, uarch: str) -> Facts:
    """Return the facts of a node type, where `mpi` is the one that the recipe has there."""
    own = _wanted(recipe, system)
    return {**system.facts(uarch), **({"mpi": own} if own else {})}


def choose_mpi(recipe: Recipe, system: System, facts: Facts) -> ChosenMpi | None:
    """Return the MPI of a recipe on a system; None if the recipe has none, or takes any and the system offers none.

    Of what the system offers the first is taken that the recipe names, of its versions the published one, else the
    first that the recipe can be built with. Raises BadInput if no version is left, or if another provides MPI.
    """
    package = _wanted(recipe, system)
    if package is None:
        return None
    pin = (recipe.mpi or {}).get(package)
    required = recipe.require.get("mpi")
    provider = parse_spec(required.provider).package if required and required.provider else package
    if required and provider != package:
        raise BadInput(
            f"{recipe.name} requires {required.provider} as MPI here; its MPI on {system.name} is {package}",
            required.position,
            f"choose it by `mpi: {{{provider}: VERSION}}` in place of this",
        )
    offered = next((one for one in system.mpi if one.package == package), None)
    variants, reason = (pin.variants, pin.reason) if pin else ("", "")
    if offered is None or not offered.versions:
        bound = pin.version if pin else None
        place = offered.position if offered else pin.position if pin else system.tree.position
    else:
        bound, place = versions(f"={_version(recipe, system, offered, facts)}"), offered.position
    return ChosenMpi(
        package=package,
        version=bound,
        variants=variants,
        reason=(offered.reason if offered else "") or reason,
        position=place,
        is_own=offered is None,
    )


def _wanted(recipe: Recipe, system: System) -> str | None:
    offered = [mpi.package for mpi in system.mpi]
    if recipe.mpi is None:
        return None
    named = recipe.mpi or dict.fromkeys(offered)
    return next((package for package in (*offered, *named) if package in named), None)


def _version(recipe: Recipe, system: System, offered: Mpi, facts: Facts) -> Version:
    bounds = [request for request in hard_requests(recipe, facts) if request.package == offered.package]
    fitting = [one for one in offered.versions if all(bound.versions.contains(one) for bound in bounds)]
    if not fitting:
        places = " and ".join(dict.fromkeys(str(bound.position) for bound in bounds))
        wanted = ", ".join(dict.fromkeys(f"{offered.package}@{bound.versions}" for bound in bounds))
        raise BadInput(
            f"{recipe.name} needs {wanted}; {system.name} has {', '.join(map(str, offered.versions))}",
            offered.position,
            f"add a version under `mpi: versions:` of the system, or change what asks for it at {places}",
        )
    table = recipe.published.table.versions_of() if recipe.published and recipe.published.prefer else {}
    published = [version for version in fitting if str(version) in table.get(offered.package, ())]
    return [*published, *fitting][0]
