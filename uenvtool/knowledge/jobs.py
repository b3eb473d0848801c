"""The requirements of jobs on a system: the section `jobs` of its file."""

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
    """A value and the reason for it."""

    shorthand: ClassVar[str] = "value"
    name: Key
    value: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bind:
    """A path of the host and its place in the container. `host` can begin with the `${VARIABLE}` of a module."""

    host: str
    inside: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Large:
    """The constraint for large runs."""

    constraint: str
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Extended:
    """The requirements of images that bring their own network stack.

    image: A pattern that matches part of the names of such images.
    options: Options of sbatch.
    """

    image: Pattern
    annotations: tuple[Explained, ...] = ()
    env: tuple[Explained, ...] = ()
    srun: tuple[str, ...] = ()
    options: tuple[Explained, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Mpi:
    """The requirements of an image's MPI programs, such as nccl-tests: options of srun, and variables."""

    srun: tuple[str, ...] = ()
    env: tuple[Explained, ...] = ()
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """A pool of nodes for pods.

    uarch: The node type, if it is not the first one of the system.
    interactive: Options of runai for a pod that waits for commands.
    """

    name: Key
    uarch: str = ""
    interactive: tuple[str, ...] = ()
    source: str
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """The local disk of a node, where a job puts the files that it opens often.

    constraint: The constraint with which sbatch requests a node that has this disk.
    """

    folder: str
    constraint: str = ""
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """A launcher that does not work in jobs on this system, and the reason."""

    name: Key
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeJob:
    """The requirements of the jobs of one runtime on a system. The schema of systems describes all fields.

    image: The default image.
    mounts, binds: The paths of the host that a container sees.
    netstack: The source of the network stack for container hooks if the EDF does not name one.
    hook: The kind of image whose variables the NCCL hook sets.
    module_use: The directories that contain some of the modules.
    modules: The modules that the job loads first.
    torch: Whether the modules bring PyTorch.
    options: Options of the command that starts the container.
    entry: A program in the container that starts all other programs.
    monitor: A command that logs the state of the GPUs.
    resources: The resources that a pod requests, with their counts.
    pools: The pools of nodes on which pods run, by name.
    mpi: The requirements of MPI programs in images that do not match `extended`.
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
    """The properties of a system that only its jobs need.

    required: The options that a user must give.
    options: The options of sbatch that every job has.
    refused: The launchers that do not work, by name.
    large: The constraint for large runs, if there is one.
    partitions: The partitions that limit their jobs, by name.
    """

    required: tuple[str, ...] = ()
    options: tuple[Explained, ...] = ()
    refused: Mapping[str, Refused] = field(default_factory=dict)
    local: Local | None = None
    large: Large | None = None
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    runtimes: Mapping[str, RuntimeJob] = field(default_factory=dict)

    def of(self, runtime: str) -> RuntimeJob:
        """Return the requirements of the jobs of a runtime, which are empty if the file does not name the runtime."""
        return self.runtimes.get(runtime, RuntimeJob())
