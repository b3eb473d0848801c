"""A fabric: the software requirements of one kind of network, which apply on every system with this network."""

from __future__ import annotations

from dataclasses import dataclass, field

from uenvtool.core.errors import Problem
from uenvtool.knowledge.bind import Binder
from uenvtool.knowledge.kinds import FABRIC
from uenvtool.knowledge.locate import available, locate
from uenvtool.knowledge.system import System, SystemPackage


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """The requirements of every environment on one kind of network."""

    description: str = ""
    packages: dict[str, SystemPackage] = field(default_factory=dict)
    mpi: dict[str, SystemPackage] = field(default_factory=dict)
    gpu: dict[str, str] = field(default_factory=dict)

    def needs(self, mpi: str | None) -> dict[str, SystemPackage]:
        """Return the requirements by package, for an environment with this MPI, or for any MPI if `mpi` is None."""
        of_mpi = {name: need for name, need in self.mpi.items() if mpi in (None, name)}
        return {**self.packages, **of_mpi}


def load_fabric(name: str) -> Fabric:
    """Return the fabric with this name or path. If no file describes the fabric, it has no requirements.

    Raises BadInput with all problems in the file.
    """
    if "/" not in name and name not in available(FABRIC):
        return Fabric()
    binder = Binder.of(locate(FABRIC, name), FABRIC)
    fabric = binder.whole(Fabric)
    binder.finish()
    return fabric


def unusable_externals(system: System) -> list[Problem]:
    """Return a problem for each external that Spack would never use, because the fabric or the system excludes it."""
    needs = load_fabric(system.fabric).needs(None)
    problems = []
    for name, package in system.packages.items():
        need = needs.get(name, SystemPackage(name=name, position=package.position))
        for external in package.externals:
            for unmet in package.over(need).unmet(external):
                owner = system.fabric if unmet.text in need.require else system.name
                what = f"{external.spec.text} does not have {unmet.text}, which {owner} requires: Spack never uses it"
                hint = "remove this external, or name an installation that has the required version"
                if unmet.words:
                    hint = f"if the installation has it, write `spec: {unmet.over(external.spec).text}`"
                problems.append(Problem(what, external.position, hint))
    return problems
