"""What doctor sees of a shell, a job or a rank: gathered once, then only looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uenvtool.core.session import CurrentJob, LoadedView
from uenvtool.knowledge.tuning import Guard, Need, Setting
from uenvtool.venv.health import PythonHere


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A folder that many ranks may use at once. disk: the kind of its file system. files: how many, if counted."""

    path: str
    disk: str
    files: int = 0


@dataclass(frozen=True, slots=True)
class Tuned:
    """The tuning for the system, the runtime and the versions that are really there. again: the command for it.

    guards: the dangers that must be kept away. needs: what a value needs, by variable and value, whoever sets it.
    """

    system: str
    runtime: str
    settings: tuple[Setting, ...]
    again: str
    guards: tuple[Guard, ...] = ()
    needs: Mapping[tuple[str, str], Need] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiUser:
    """A compiled part of a package that needs an MPI. mpi: the name of that. transport: it, or its MPI, has the GTL."""

    path: str
    mpi: str
    transport: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Libraries:
    """What the loader finds.

    found: names such as `libnccl-net` to the files that it would find, in its order. plugin_lacks: libraries that the
    plugin needs and the loader does not find. mpi_users: what Python loads that needs an MPI. gone: folders of the
    library path that are not there. providers: the networks that libfabric offers, None if it could not be asked.
    driver_cuda: the newest CUDA that the driver knows, major version; 0 without one.
    """

    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plugin_lacks: tuple[str, ...] = ()
    mpi_users: tuple[MpiUser, ...] = ()
    gone: tuple[str, ...] = ()
    providers: frozenset[str] | None = None
    driver_cuda: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Disks:
    """Folders that many ranks use at once. venv: the virtual environment. caches: by the variable that names each."""

    venv: Folder | None = None
    caches: Mapping[str, Folder] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """What is there. What could not be found out is None, or empty.

    absent: variables whose path is not there, with the path. cores: that this process may use. shm: free and whole
    bytes of /dev/shm. core_limit: bytes that a core dump may have, -1 without limit. listening: ports that are taken.
    unresolved: host names without an address.
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
    disks: Disks = field(default_factory=Disks)
    absent: Mapping[str, str] = field(default_factory=dict)
    shm: tuple[int, int] | None = None
    core_limit: int = 0
    listening: frozenset[int] = frozenset()
    unresolved: tuple[str, ...] = ()

    @property
    def is_at_work(self) -> bool:
        """Tell if trainings run here: in a job, a pod, or a container with torch."""
        has_torch = self.python is not None and bool(self.python.versions("torch"))
        return self.job is not None or (self.in_container and has_torch)
