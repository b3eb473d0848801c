"""A system: where software is built for and runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from uenvtool.core.errors import Position
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts
from uenvtool.knowledge.locate import Location
from uenvtool.knowledge.parts import Addition, GitPin
from uenvtool.knowledge.recognise import Marker
from uenvtool.knowledge.source import Node
from uenvtool.knowledge.spec import Spec, parse_spec
from uenvtool.knowledge.version import Version

FACTS = (
    "system",
    "site",
    "uarch",
    "target",
    "os",
    "fabric",
    "mpi",
    "scheduler",
    "slurm",
    "exclusive",
    "gpu",
    "cuda_arch",
)
"""The facts that a recipe's conditions can ask for, each of the system and node type in hand."""
HOST = "host"
"""A value that stands for this machine's own: target, OS, compilers of the system `local`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The GPUs of a node. memory: GB a GPU. arch: as the compiler names it (`90`), without dot."""

    vendor: str
    model: str
    arch: str
    count: int
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    """One kind of node. target, os: as Spack names them. cores: of a node. memory: GB a node."""

    uarch: str
    target: str
    os: str
    cores: int
    memory: int
    gpu: Gpu | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """An installation that the system brings. compilers: language (c, cxx, fortran) to path."""

    spec: Spec
    prefix: str
    compilers: dict[str, str]
    position: Position
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A constraint that a package must meet on a system."""

    text: str
    position: Position
    reason: str = ""
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPackage:
    """What the system says of one package.

    buildable: False if only the externals will do. prefer: versions to take if nothing stands against
    them, the best first. when: where all of this holds.
    """

    name: str
    position: Position
    externals: tuple[External, ...] = ()
    buildable: bool | None = None
    require: tuple[Requirement, ...] = ()
    prefer: tuple[str, ...] = ()
    reason: str = ""
    source: str = ""
    when: Condition = ALWAYS

    @property
    def decides_version(self) -> bool:
        """Whether the system says which version to take, so that a published one does not count."""
        return bool(self.externals or self.prefer) or self.buildable is False

    def allows(self, version: str) -> bool:
        """Whether a version meets what the system requires of the package."""
        required = [parse_spec(requirement.text).versions for requirement in self.require]
        return all(constraint is None or constraint.contains(Version(version)) for constraint in required)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mpi:
    """The MPI of a system. versions: those that it has, the preferred first; none: whatever Spack knows."""

    package: str
    versions: tuple[Version, ...] = ()
    reason: str = ""
    source: str = ""
    position: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A system with everything that it inherits.

    configuration: files of Spack configuration that every environment includes, the first with the last word.
    libraries: folders where the system's NCCL may lie, beside the usual ones. notes: what its users should know.
    """

    name: str
    description: str
    site: str
    fabric: str
    nodes: dict[str, NodeType]
    mpi: Mpi | None
    packages: dict[str, SystemPackage]
    repos: dict[str, GitPin]
    additions: tuple[Addition, ...]
    configuration: tuple[Addition, ...]
    runtimes: tuple[str, ...]
    scheduler: str
    scheduler_defaults: dict[str, str]
    has_exclusive_nodes: bool
    mount: str
    scratch: tuple[str, ...]
    tuning: tuple[str, ...]
    libraries: tuple[str, ...]
    notes: tuple[str, ...]
    markers: tuple[Marker, ...]
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    def node(self, uarch: str) -> NodeType:
        """The node type of that name."""
        return self.nodes[uarch]

    def facts(self, uarch: str) -> Facts:
        """What conditions can ask for of this system and node type; see FACTS."""
        node = self.nodes[uarch]
        nvidia = node.gpu.arch if node.gpu and node.gpu.vendor == "nvidia" else None
        return {
            "system": self.name,
            "site": self.site,
            "uarch": uarch,
            "target": node.target,
            "os": node.os,
            "fabric": self.fabric,
            "mpi": self.mpi.package if self.mpi else None,
            "scheduler": self.scheduler,
            "gpu": node.gpu.vendor if node.gpu else None,
            "cuda_arch": nvidia,
        }
