"""A system: the description of one cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from uenvtool.core.errors import BadInput, Position, unknown
from uenvtool.core.session import KUBERNETES, SLURM
from uenvtool.knowledge.bind import Binder, Key, SpecText, children
from uenvtool.knowledge.condition import ALWAYS, Condition, Facts
from uenvtool.knowledge.facts import SYSTEM_FACTS
from uenvtool.knowledge.jobs import Cpu, Jobs, Partition, Pool, RuntimeJob, Scheduler, minutes
from uenvtool.knowledge.kinds import RUNTIME, SYSTEM, TUNING
from uenvtool.knowledge.locate import Location, locate
from uenvtool.knowledge.recognise import Marker
from uenvtool.knowledge.spec import Spec, parse_spec
from uenvtool.knowledge.version import Version
from uenvtool.knowledge.yamltree import Node

HOST = "host"
"""The value that the system `local` uses for the target, OS and compilers of this machine."""
_OF_GPU_JOBS = ("partition", "mem", "gpus-per-node", "ntasks-per-node", "cpus-per-task")
"""The default options that describe a job with GPUs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """The GPUs of a node. memory: GB per GPU. arch: The architecture as compilers name it (`90`), without a dot."""

    vendor: Literal["nvidia", "amd"]
    model: str
    arch: str
    count: int
    memory: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """The value of a launcher's option that binds each rank to the cores that are close to its GPU."""

    value: str = ""
    gpus: str = ""
    when: Condition = ALWAYS
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeType:
    """One type of node. memory: GB per node."""

    uarch: Key
    target: str
    os: str
    cores: int = 0
    memory: int = 0
    gpu: Gpu | None = None
    binding: dict[str, Binding] = field(default_factory=dict)

    @property
    def gpu_count(self) -> int:
        return self.gpu.count if self.gpu else 0

    @property
    def machine(self) -> str:
        """The output of `uname -m` on the node, or an empty string if archspec does not know the target."""
        import archspec.cpu

        target = archspec.cpu.TARGETS.get(self.target)
        return str(target.family.name) if target else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class External:
    """An installed package that the system provides. compilers: The path of each compiler, by language."""

    spec: Spec
    prefix: str
    compilers: dict[str, str] = field(default_factory=dict)
    position: Position
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class Default:
    """A constraint that a package must meet under a condition, unless the recipe or the system sets its variants.

    external: The package that the system must provide, because Spack would otherwise build it.
    """

    spec: SpecText
    when: Condition = ALWAYS
    reason: str
    external: str = ""
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemPackage:
    """The system's requirements for one package.

    variants: The variants that the fabric recommends. They are used if the package has them and nothing conflicts.
    defaults: The conditional constraints of the fabric. A system with an empty list has none of them.
    """

    name: Key
    position: Position
    externals: tuple[External, ...] = ()
    buildable: bool | None = None
    require: tuple[str, ...] = ()
    prefer: tuple[str, ...] = ()
    prefer_strongly: tuple[str, ...] = ()
    variants: str = ""
    defaults: tuple[Default, ...] | None = None
    reason: str = ""

    @property
    def required(self) -> tuple[str, ...]:
        return (*self.require, *(default.spec for default in self.defaults or ()))

    @property
    def decides_version(self) -> bool:
        """Return whether the system determines the version, so that a published version is ignored."""
        return bool(self.externals or self.prefer) or self.buildable is False

    def over(self, need: SystemPackage) -> SystemPackage:
        """Return these requirements merged with those of the fabric for the same package. Both are required.

        The result omits a default of the fabric if these requirements set one of its variants.
        """
        return replace(
            self,
            defaults=need.without_defaults_for(self.require).defaults if self.defaults is None else self.defaults,
            require=(*need.require, *(text for text in self.require if text not in need.require)),
            buildable=need.buildable if self.buildable is None else self.buildable,
            variants=need.variants,
            reason=self.reason or need.reason,
        )

    def without_defaults_for(self, texts: Iterable[str]) -> SystemPackage:
        """Return these requirements without the defaults whose variants these specs set."""
        named = {name for text in texts if text for name in parse_spec(text).words}
        kept = (each for each in self.defaults or () if not named & parse_spec(each.spec).words.keys())
        return replace(self, defaults=tuple(kept))

    def unmet(self, external: External) -> Iterator[Spec]:
        """Yield the requirements that an external does not meet, in the order of `required`.

        Spack assumes the default of each variant that the external does not name, so the external must name the
        required variants. If a variant has several required values, the external needs only the first one, such as cxi
        for fabrics=cxi,rxm,tcp. Values with a `${...}`, which depends on the node type, are not compared.
        """
        spec = external.spec
        for requirement in map(parse_spec, self.required):
            required, has = requirement.versions, spec.versions
            is_other_version = required is not None and has is not None and not required.intersects(has)
            pairs = [(word, spec.words.get(name, "")) for name, word in requirement.words.items()]
            comparable = [(word, has_word) for word, has_word in pairs if not has_word or "${" not in word + has_word]
            if is_other_version or any(_values(word)[0] not in _values(has_word) for word, has_word in comparable):
                yield requirement

    def allows(self, version: str) -> bool:
        required = [parse_spec(requirement).versions for requirement in self.require]
        return all(constraint is None or constraint.contains(Version(version)) for constraint in required)


def _values(word: str) -> list[str]:
    """Return the values in a variant's spec syntax: `+x` gives true, and `x=a,b` gives a and b."""
    _, equals, values = word.partition("=")
    if equals:
        return values.strip("='\"").lower().split(",")
    return ["true" if word.startswith("+") else "false"] if word else []


@dataclass(frozen=True, kw_only=True, slots=True)
class Mpi:
    """An MPI that a system offers. versions: The preferred version first. If it is empty, any version can be used."""

    shorthand: ClassVar[str] = "package"
    package: str
    versions: tuple[Version, ...] = ()
    reason: str = ""
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class GitPin:
    """A git repository at a tag, commit or branch."""

    url: str
    tag: str | None = None
    commit: str | None = None
    branch: str | None = None
    paths: tuple[str, ...] = ()

    @property
    def revision(self) -> str:
        """Return the tag, the commit or the branch, or HEAD if the pin has none of them."""
        return self.tag or self.commit or self.branch or "HEAD"


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """A system with everything that it inherits. mpi: The offered MPIs, the preferred one first."""

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
    recognise: tuple[Marker, ...] = ()
    chain: tuple[Location, ...]
    tree: Node = field(compare=False, repr=False)

    def partition(self, name: str) -> Partition | None:
        """Return the limits of a partition, or None if they are not known. An empty name is the default partition."""
        known = self.jobs.partitions
        usual = next((partition.name for partition in known.values() if partition.default), "")
        return known.get(name or self.scheduler.defaults.get("partition", usual))

    def qos(self, name: str) -> Partition | None:
        """Return the limits of a QOS, or None if they are not known. An empty name is the default QOS."""
        known = self.jobs.qos
        return known.get(name) if name else next((each for each in known.values() if each.default), None)

    def under(self, runtime: str, scheduler: str) -> System:
        """Return the system with only the scheduler that starts a runtime's jobs, or else the system's scheduler.

        scheduler: The kind of scheduler that the runtime needs. Pods do not have the limits and options of Slurm.
        """
        own = self.jobs.of(runtime).scheduler
        if own is None and (scheduler != KUBERNETES or self.scheduler.name != SLURM):
            return self
        own = own or Scheduler(name=KUBERNETES)
        jobs = self.jobs
        if own.name != SLURM:
            jobs = replace(jobs, required=(), options=(), partitions={}, qos={}, cpu=None)
        return replace(self, scheduler=own, jobs=jobs)

    def without_gpus(self, uarch: str, partition: str) -> System:
        """Return the system with only its nodes without GPUs, for a job in a partition of such nodes.

        partition: the name, or "" if the system has none. Modules and images for another CPU are left out.
        """
        node, cpu = self.nodes[uarch], self.jobs.cpu or Cpu(cores=0)
        target = cpu.target or node.target
        bare = replace(node, gpu=None, binding={}, cores=cpu.cores, memory=cpu.memory, target=target)
        partitions = {name: each for name, each in self.jobs.partitions.items() if each.gpus == 0}
        defaults = {name: value for name, value in self.scheduler.defaults.items() if name not in _OF_GPU_JOBS}
        if partition:
            defaults["partition"] = partition
        is_same_cpu = bare.machine == node.machine
        runtimes = {
            name: replace(job, options=(), monitor="") if is_same_cpu else RuntimeJob(mounts=job.mounts)
            for name, job in self.jobs.runtimes.items()
        }
        jobs = replace(self.jobs, options=cpu.options, partitions=partitions, runtimes=runtimes, large=None)
        scheduler = replace(self.scheduler, defaults={**defaults, "nodes": "1"})
        return replace(self, nodes={uarch: bare}, jobs=jobs, scheduler=scheduler)

    def facts(self, uarch: str) -> Facts:
        """Return the facts of this system and node type that conditions can test; see SYSTEM_FACTS."""
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
    """Return the system with this name or path, including inherited values. Raises BadInput with all problems.

    unwritten: The content to use instead of the file, which may not exist yet.
    """
    binder = Binder.of(locate(SYSTEM, name, unwritten=unwritten), SYSTEM)
    one_or_more: type = tuple[Mpi, ...]
    binder.special = {one_or_more: lambda node, _: tuple(binder.fill(Mpi, item) for item in node.each())}
    system = binder.whole(System, name=binder.chain[0].name, chain=binder.chain, tree=binder.tree)
    if time := dict(children(binder.tree, "scheduler", "defaults")).get("time"):
        try:
            minutes(str(time.value))
        except ValueError as error:
            binder.problem(str(error), time.position, 'write the time as in "01:00:00", with quotation marks')
    for package in system.packages.values():
        for external in package.externals:
            missing = [term.fact for term in external.when.terms if term.fact not in SYSTEM_FACTS]
            binder.problems += [unknown("fact", fact, SYSTEM_FACTS, external.position) for fact in missing]
    cpu, partitions = system.jobs.cpu, system.jobs.partitions
    if cpu and cpu.partition and cpu.partition not in (name for name, each in partitions.items() if each.gpus == 0):
        position = dict(children(binder.tree, "jobs", "cpu"))["partition"].position
        binder.problem(f"partition {cpu.partition!r} has GPUs or is not known", position, "name one with `gpus: 0`")
    places: list[Partition | Pool] = [*partitions.values()]
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
