"""The requirements of jobs on a system: the section `jobs` of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from uenvtool.core.errors import Position
from uenvtool.core.words import counted
from uenvtool.knowledge.bind import Key
from uenvtool.knowledge.pattern import Pattern

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")


@dataclass(frozen=True, slots=True)
class Explained:
    """A value and the reason for it."""

    shorthand: ClassVar[str] = "value"
    name: Key
    value: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bind:
    """A path of the host and its path in the container. `host` can begin with a module's `${VARIABLE}`."""

    host: str
    inside: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Large:
    """The Slurm constraint for large runs."""

    constraint: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Extended:
    """The job requirements of images that contain their own network stack."""

    image: Pattern
    annotations: tuple[Explained, ...] = ()
    env: tuple[Explained, ...] = ()
    srun: tuple[str, ...] = ()
    options: tuple[Explained, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Mpi:
    """The srun options and variables that an image's MPI programs need, such as nccl-tests."""

    srun: tuple[str, ...] = ()
    env: tuple[Explained, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """The time limit for jobs with at most `nodes` nodes, in partitions where small jobs get less time."""

    nodes: int
    time: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Partition:
    """The limits of jobs in a partition or QOS. A limit that is 0, empty or None is not known.

    gpus: The value 0 means that the nodes have no GPUs.
    exclusive: Whether each node runs only one job.
    """

    name: Key
    nodes: int = 0
    time: str = ""
    bins: tuple[Bin, ...] = ()
    node_minutes: int = 0
    gpus: int | None = None
    exclusive: bool = False
    default: bool = False
    uarch: str = ""
    reason: str = ""
    source: str
    position: Position

    def minutes(self, nodes: int) -> float:
        """Return the time limit in minutes of a job on this number of nodes, or infinity if no limit is known."""
        time_limit = next((limit.time for limit in self.bins if nodes <= limit.nodes), self.time)
        by_time = minutes(time_limit) if time_limit else float("inf")
        return min(by_time, self.node_minutes // nodes) if self.node_minutes else by_time

    def accepts(self, nodes: int, gpus: int, minutes: float) -> bool:
        """Return whether the partition accepts a job. gpus: the number of GPUs on all nodes together."""
        has_gpus = self.gpus is None or gpus <= self.gpus
        return (not self.nodes or nodes <= self.nodes) and has_gpus and minutes <= self.minutes(nodes)

    @property
    def limits(self) -> str:
        parts = [
            "nodes without GPUs" if self.gpus == 0 else f"{self.gpus} GPUs" if self.gpus else "",
            counted(self.nodes, "node") if self.nodes else "",
            f"{self.node_minutes} node-minutes" if self.node_minutes else "",
            self.time,
            *(f"{limit.time} on at most {limit.nodes} nodes" for limit in self.bins),
        ]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """The nodes without GPUs. cores: per node. memory: GB per node. options: replace the options of other jobs."""

    cores: int
    memory: int = 0
    target: str = ""
    partition: str = ""
    options: tuple[Explained, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """A pool of nodes on which pods run."""

    uarch: str = ""
    interactive: tuple[str, ...] = ()
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """The local disk of a node, where a job puts the files that it opens often."""

    folder: str
    constraint: str = ""
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A launcher that does not work in jobs on this system, and the reason."""

    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Adds:
    """The options that the options of a runtime add to its command."""

    options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteFs:
    """The paths of the host that a runtime mounts by itself, because the site configured it so."""

    paths: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheduler:
    """The scheduler that starts jobs."""

    name: str = ""
    exclusive: bool = False
    defaults: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeJob:
    """The requirements of one runtime's jobs on a system. scheduler: None is the scheduler of the system."""

    scheduler: Scheduler | None = None
    image: str = ""
    mounts: tuple[str, ...] = ()
    workdir: str = ""
    netstack: str = ""
    hook: str = ""
    module_use: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    torch: bool = True
    options: tuple[str, ...] = ()
    adds: Adds | None = None
    site_fs: SiteFs | None = None
    entry: str = ""
    srun: tuple[str, ...] = ()
    binds: tuple[Bind, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    library_path: tuple[str, ...] = ()
    include_path: tuple[str, ...] = ()
    monitor: str = ""
    annotations: tuple[Explained, ...] = ()
    resources: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    extended: Extended | None = None
    mpi: Mpi | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """The properties of a system that only its jobs need."""

    required: tuple[str, ...] = ()
    options: tuple[Explained, ...] = ()
    refused: Mapping[str, Refused] = field(default_factory=dict)
    local: Local | None = None
    large: Large | None = None
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    qos: Mapping[str, Partition] = field(default_factory=dict)
    cpu: Cpu | None = None
    runtimes: Mapping[str, RuntimeJob] = field(default_factory=dict)

    def of(self, runtime: str) -> RuntimeJob:
        """Return a runtime's job requirements. They are empty if the system file does not name the runtime."""
        return self.runtimes.get(runtime, RuntimeJob())


def minutes(time: str) -> float:
    """Return a time limit of sbatch in minutes, which is infinite if the time is not limited.

    Seconds are rounded up to minutes, as in Slurm (sbatch(1)). Raises ValueError if the text is not a time limit.
    """
    if time.lower() in ("unlimited", "infinite"):
        return float("inf")
    match = _TIME.fullmatch(time)
    if match is None:
        raise ValueError(f"{time!r} is not a valid time limit for sbatch")
    days, *numbers = (int(part or 0) for part in match.group("days", "first", "second", "third"))
    has_hours = match["days"] or match["third"]  # days-hours:minutes:seconds, else minutes:seconds
    hours, minutes, seconds = numbers if has_hours else [0, *numbers[:2]]
    seconds += ((days * 24 + hours) * 60 + minutes) * 60
    return -(-seconds // 60) or float("inf")


def time_text(minutes: float) -> str:
    """Return whole minutes as a time limit for sbatch."""
    days, rest = divmod(int(minutes), 24 * 60)
    hours, left = divmod(rest, 60)
    return f"{days}-{hours:02}:{left:02}:00" if days > 1 else f"{days * 24 + hours:02}:{left:02}:00"
