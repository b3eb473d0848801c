"""The state of a shell, job or rank that the checks read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.core.session import CurrentJob, LoadedView
from uenvtool.knowledge.tuning import Guard, Need, Setting
from uenvtool.venv.health import PythonHere


@dataclass(frozen=True, kw_only=True, slots=True)
class Directory:
    """A directory that many ranks may use, with its file system type and, if counted, its number of files."""

    path: str
    disk: str
    files: int = 0


@dataclass(frozen=True, slots=True)
class Tuned:
    """The tuning for the detected system, runtime and versions.

    command: the shell command that applies the tuning.
    guards: the dangers, each with the variables that prevent it.
    needs: the requirement of a value, by variable and value.
    """

    system: str
    runtime: str
    settings: tuple[Setting, ...]
    command: str
    guards: tuple[Guard, ...] = ()
    needs: Mapping[tuple[str, str], Need] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiUser:
    """A compiled file of a Python package that is linked with an MPI library.

    mpi: the file name of the MPI library.
    transport: whether the file or its MPI library is linked with Cray MPICH's GPU transport layer (GTL).
    """

    path: str
    mpi: str
    transport: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Libraries:
    """The libraries that the dynamic loader finds.

    found: the files in the loader's search order, by library names such as `libnccl-net`.
    plugin_lacks: the libraries that the NCCL plugin needs and the loader does not find.
    gone: the directories in LD_LIBRARY_PATH that do not exist.
    providers: the providers that libfabric offers, or None if they are unknown.
    silent: the programs that did not answer a query.
    driver_cuda: the major version of the newest CUDA that the driver supports, or 0 without a driver.
    """

    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plugin_lacks: tuple[str, ...] = ()
    mpi_users: tuple[MpiUser, ...] = ()
    gone: tuple[str, ...] = ()
    providers: frozenset[str] | None = None
    silent: tuple[str, ...] = ()
    driver_cuda: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The state of a shell, job or rank. An unknown value is None or empty.

    cores: the number of cores that this process may use.
    venv, caches: the virtual environment, and the kernel and model caches by the variable that names each.
    absent: the first path in each variable that does not exist.
    shm: the free and total bytes of /dev/shm.
    core_limit: the maximum size of a core dump in bytes, or -1 if there is no limit.
    listening: the ports on which a process listens.
    unresolved: the host names that do not resolve to an address.
    """

    environ: Mapping[str, str]
    node: str = ""
    cores: int | None = None
    job: CurrentJob | None = None
    views: tuple[LoadedView, ...] = ()
    in_container: bool = False
    tuned: Tuned | None = None
    python: PythonHere | None = None
    libraries: Libraries = field(default_factory=Libraries)
    venv: Directory | None = None
    caches: Mapping[str, Directory] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    shm: tuple[int, int] | None = None
    core_limit: int = 0
    listening: frozenset[int] = frozenset()
    unresolved: tuple[str, ...] = ()

    @property
    def is_at_work(self) -> bool:
        """Return whether training runs here: in a job, a pod, or a container with torch."""
        has_torch = self.python is not None and bool(self.python.versions("torch"))
        return self.job is not None or (self.in_container and has_torch)
