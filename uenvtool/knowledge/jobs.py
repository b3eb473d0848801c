"""What jobs need on a system: the `jobs` of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from uenvtool.core.errors import Position
from uenvtool.knowledge.bind import Key
from uenvtool.knowledge.partition import Partition
from uenvtool.knowledge.pattern import Pattern


@dataclass(frozen=True, slots=True)
class Explained:
    """A value and why it is so."""

    shorthand: ClassVar[str] = "value"
    name: Key
    value: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bind:
    """A path of the host, which may begin with a module's `${VARIABLE}`, and its place in the container."""

    host: str
    inside: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Large:
    """What large runs ask for."""

    constraint: str
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Extended:
    """What images with their own network stack need.

    image: the part of an image's name that shows one. options: those of sbatch.
    """

    image: Pattern
    annotations: tuple[Explained, ...] = ()
    env: tuple[Explained, ...] = ()
    srun: tuple[str, ...] = ()
    options: tuple[Explained, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Mpi:
    """What the MPI programs of an image need to meet, such as nccl-tests: options of srun, and variables."""

    srun: tuple[str, ...] = ()
    env: tuple[Explained, ...] = ()
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """A pool of nodes for pods. uarch: its node type, if not the first. interactive: options of a pod that waits."""

    name: Key
    uarch: str = ""
    interactive: tuple[str, ...] = ()
    source: str
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """The disk of a node, to which a job sends what it opens often. constraint: what sbatch asks for to have it."""

    folder: str
    constraint: str = ""
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A launcher that jobs here do not take, and why."""

    name: Key
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeJob:
    """What the jobs of one runtime need on a system, see the system's schema.

    image: of jobs that name none. mounts, binds: what a container sees of the host. netstack: where hooks take the
    network stack from, if an EDF does not say. hook: the kind of image that sets what its NCCL hook then sets.
    modules: what the job loads first; module_use: folders that have some of them; torch: they bring PyTorch.
    options: of the command that starts the container; entry: a program in it that starts all others. monitor: a
    program that logs the GPUs. resources: of a pod, with their count. pools: of the nodes that pods run on, by
    name. mpi: of images without an `extended` one.
    """

    image: str = ""
    mounts: tuple[str, ...] = ()
    workdir: str = ""
    netstack: str = ""
    hook: str = ""
    module_use: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    torch: bool = True
    options: tuple[str, ...] = ()
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
    """Everything of a system that only its jobs need.

    required: options that a user must give. options: those of sbatch that every job has. refused: launchers, by name.
    large: the constraint of large runs, if there is one. partitions: those whose jobs are limited, by name.
    """

    required: tuple[str, ...] = ()
    options: tuple[Explained, ...] = ()
    refused: Mapping[str, Refused] = field(default_factory=dict)
    local: Local | None = None
    large: Large | None = None
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    runtimes: Mapping[str, RuntimeJob] = field(default_factory=dict)

    def of(self, runtime: str) -> RuntimeJob:
        """Return what the jobs of a runtime need; nothing if the file says nothing of it."""
        return self.runtimes.get(runtime, RuntimeJob())
