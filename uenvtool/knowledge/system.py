"""A system: where software is built for and runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.knowledge.bind import Binder, Key, children
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts
from uenvtool.knowledge.facts import SYSTEM_FACTS
from uenvtool.knowledge.jobs import Jobs, Pool
from uenvtool.knowledge.kinds import RUNTIME, SYSTEM, TUNING
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.partition import Partition, minutes
from uenvtool.knowledge.recognise import Marker
from uenvtool.knowledge.spec import Spec, parse_spec
from uenvtool.knowledge.version import Version
from uenvtool.knowledge.yamltree import Node

HOST = "host"
"""A value that stands for this machine's own: target, OS, compilers of the system `local`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """The GPUs of a node. memory: GB a GPU. arch: as the compiler names it (`90`), without dot."""

    vendor: Literal["nvidia", "amd"]
    model: str
    arch: str
    count: int
    memory: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """How a launcher gives a rank the cores beside its GPU: the value of its option.

    gpus: each rank sees its own GPU alone, which Slurm chooses so (--gpu-bind).
    """

    value: str = ""
    gpus: str = ""
    when: Condition = ALWAYS
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeType:
    """One kind of node. target, os: as Spack names them. cores: of a node. memory: GB a node. binding: by launcher."""

    uarch: Key
    target: str
    os: str
    cores: int = 0
    memory: int = 0
    gpu: Gpu | None = None
    binding: dict[str, Binding] = field(default_factory=dict)
    reason: str = ""

    @property
    def gpu_count(self) -> int:
        """How many GPUs it has."""
        return self.gpu.count if self.gpu else 0

    @property
    def machine(self) -> str:
        """What `uname -m` says on it; "" if archspec does not know its target."""
        import archspec.cpu

        found = archspec.cpu.TARGETS.get(self.target)
        return str(found.family.name) if found else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class External:
    """An installation that the system brings. compilers: language (c, cxx, fortran) to path."""

    spec: Spec
    prefix: str
    compilers: dict[str, str] = field(default_factory=dict)
    position: Position
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemPackage:
    """What the system says of one package.

    buildable: False if only the externals will do. require: constraints that the package must meet. prefer:
    versions to take if nothing stands against them, the best first. prefer_strongly: constraints to meet if possible.
    variants: those of the fabric, taken if it has them and nothing stands against it.
    """

    name: Key
    position: Position
    externals: tuple[External, ...] = ()
    buildable: bool | None = None
    require: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    prefer_strongly: tuple[str, ...] = ()
    variants: str = ""
    reason: str = ""
    source: str = ""

    @property
    def decides_version(self) -> bool:
        """Tell if the system says which version to take, so that a published one does not count."""
        return bool(self.externals or self.prefer) or self.buildable is False

    def over(self, need: SystemPackage) -> SystemPackage:
        """Return this laid over what the fabric needs of the package: both are required."""
        return replace(
            self,
            require=(*need.require, *(text for text in self.require if text not in need.require)),
            buildable=need.buildable if self.buildable is None else self.buildable,
            variants=need.variants,
            reason=self.reason or need.reason,
        )

    def allows(self, version: str) -> bool:
        """Tell if a version meets what the system requires of the package."""
        required = [parse_spec(requirement).versions for requirement in self.require]
        return all(constraint is None or constraint.contains(Version(version)) for constraint in required)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mpi:
    """An MPI that a system offers. versions: those that it has, the preferred first; none: whatever Spack knows."""

    shorthand: ClassVar[str] = "package"
    package: str
    versions: tuple[Version, ...] = ()
    reason: str = ""
    source: str = ""
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Bandwidth:
    """A bus bandwidth, in GB/s, that was measured on the system, of messages of so many bytes on so many nodes."""

    test: str
    nodes: int
    bytes: int
    busbw: float
    source: str
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduler:
    """What starts jobs.

    exclusive: a node runs one job at a time, also without --exclusive. defaults: options of a job.
    """

    name: Literal["slurm", "kubernetes", "none", ""] = ""
    exclusive: bool = False
    defaults: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class GitPin:
    """A git repository at a tag, commit or branch.

    paths: the folders of package repositories in it, if it does not list them itself.
    """

    url: str
    tag: str | None = None
    commit: str | None = None
    branch: str | None = None
    paths: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """Return the tag, else the commit, else the branch."""
        return self.tag or self.commit or self.branch or "HEAD"


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """A system with everything that it inherits.

    mpi: what it offers, the preferred first. libraries: folders where the system's NCCL may lie, beside the usual ones.
    notes: what its users should know. bandwidth: how fast its network has been.
    """

    name: str
    description: str
    site: str
    fabric: Literal["slingshot", "roce", "infiniband", "ethernet", "none"]
    nodes: dict[str, NodeType]
    mpi: tuple[Mpi, ...] = ()
    packages: dict[str, SystemPackage] = field(default_factory=dict)
    repos: dict[str, GitPin] = field(default_factory=dict)
    runtimes: tuple[str, ...] = ()
    scheduler: Scheduler = field(default_factory=Scheduler)
    jobs: Jobs = field(default_factory=Jobs)
    mount: str = ""
    tuning: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    bandwidth: tuple[Bandwidth, ...] = ()
    recognise: tuple[Marker, ...] = ()
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    def partition(self, name: str) -> Partition | None:
        """Return what limits a partition, or the usual one without a name; None if the file says nothing of it."""
        known = self.jobs.partitions
        usual = next((one.name for one in known.values() if one.default), "")
        return known.get(name or self.scheduler.defaults.get("partition", usual))

    def facts(self, uarch: str) -> Facts:
        """Return what conditions can ask for of this system and node type; see SYSTEM_FACTS."""
        node = self.nodes[uarch]
        arch = {node.gpu.vendor: node.gpu.arch} if node.gpu else {}
        return {
            "system": self.name,
            "site": self.site,
            "uarch": uarch,
            "target": node.target,
            "os": node.os,
            "fabric": self.fabric,
            "mpi": self.mpi[0].package if self.mpi else None,
            "scheduler": self.scheduler.name,
            "gpu": node.gpu.vendor if node.gpu else None,
            "cuda_arch": arch.get("nvidia"),
            "amdgpu_target": arch.get("amd"),
        }


def load_system(name: str, unwritten: bytes | None = None) -> System:
    """Return the system of that name or path, resolved through `extends`.

    unwritten: what stands for a file that is not there yet.

    Raises BadInput with every problem found, each with its position.
    """
    binder = Binder.of(locate(SYSTEM, name, unwritten=unwritten), SYSTEM)
    one_or_more: type = tuple[Mpi, ...]
    binder.special = {one_or_more: lambda node, _: tuple(binder.fill(Mpi, one) for one in node.each())}
    system = binder.whole(
        System,
        name=binder.chain[0].name,
        chain=binder.chain,
        tree=binder.tree,
    )
    time = dict(children(binder.tree, "scheduler", "defaults")).get("time")
    if time is not None:
        try:
            minutes(str(time.value))
        except ValueError as error:
            binder.problem(str(error), time.position, 'write for example "01:00:00"')
    for package in system.packages.values():
        for external in package.externals:
            missing = [term.fact for term in external.when.terms if term.fact not in SYSTEM_FACTS]
            binder.problems += [unknown("fact", fact, SYSTEM_FACTS, external.position) for fact in missing]
    places: list[Partition | Pool] = [*system.jobs.partitions.values()]
    places += [pool for runtime in system.jobs.runtimes.values() for pool in runtime.pools.values()]
    for place in places:
        if place.uarch and place.uarch not in system.nodes:
            binder.problems.append(unknown("node type", place.uarch, system.nodes, place.position))
    for kind, key in ((RUNTIME, "runtimes"), (TUNING, "tuning")):
        for _, node in children(system.tree, key):
            try:
                locate(kind, str(node.value), node.position)
            except BadInput as error:
                binder.problems += error.problems
    binder.finish()
    return system
