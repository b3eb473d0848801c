"""A fabric: what software needs to reach a network, on every system that has it."""

from __future__ import annotations

from dataclasses import dataclass, field

from uenvtool.knowledge.bind import Binder
from uenvtool.knowledge.kinds import FABRIC
from uenvtool.knowledge.locate import available, locate
from uenvtool.knowledge.system import SystemPackage


@dataclass(frozen=True, kw_only=True, slots=True)
class Fabric:
    """What every environment requires of packages on this network.

    mpi: the same of MPI providers. gpu: vendor of the nodes' GPUs to the variants by which these packages reach their
    memory, taken if nothing stands against them.
    """

    description: str = ""
    packages: dict[str, SystemPackage] = field(default_factory=dict)
    mpi: dict[str, SystemPackage] = field(default_factory=dict)
    gpu: dict[str, str] = field(default_factory=dict)

    def needs(self, mpi: str | None) -> dict[str, SystemPackage]:
        """Return what an environment with this MPI requires, by package; without one, of every MPI."""
        of_mpi = {name: need for name, need in self.mpi.items() if mpi in (None, name)}
        return {**self.packages, **of_mpi}


def load_fabric(name: str) -> Fabric:
    """Return the fabric of that name or path; one that requires nothing, if no file says anything of it.

    Raises BadInput with everything that is wrong in the file.
    """
    if "/" not in name and name not in available(FABRIC):
        return Fabric()
    binder = Binder.of(locate(FABRIC, name), FABRIC)
    fabric = binder.whole(Fabric)
    binder.finish()
    return fabric
