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
    """A path of the host and its path in the container. `host` can begin with a module's `${VARIABLE}`."""

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
    """The requirements of images that bring their own network stack."""

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
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    """A pool of nodes on which pods run."""

    name: Key
    uarch: str = ""
    interactive: tuple[str, ...] = ()
    source: str
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """The local disk of a node, where a job puts the files that it opens often."""

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
    """The requirements of one runtime's jobs on a system."""

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
    """The properties of a system that only its jobs need."""

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
