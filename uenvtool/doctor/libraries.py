"""Checks of the NCCL plugin, libfabric, MPI and the GPU driver that the dynamic loader finds (ld.so(8))."""

from __future__ import annotations

import ctypes
import fnmatch
import glob
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.elf import needs_of
from uenvtool.core.errors import NoAnswer, UenvtoolError
from uenvtool.doctor.finding import Fault, no_answer
from uenvtool.doctor.snapshot import Libraries, MpiUser, Snapshot
from uenvtool.venv.health import PythonHere

PLUGIN, MPI = "libnccl-net", "libmpi"
PATTERNS = {PLUGIN: "libnccl-net*.so*", MPI: "libmpi.so*"}
LIBRARY_PATH = "LD_LIBRARY_PATH"
CONFIGURATION = Path("/etc/ld.so.conf.d")
MPI_USERS = ("mpi4py/MPI*.so", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so")
"""The compiled files in Python packages that may be linked with an MPI library."""
GPU_SUPPORT = "MPICH_GPU_SUPPORT_ENABLED"
BUILT_IN = ("", "Socket", "IB")
"""The values of NCCL_NET for which NCCL needs no plugin."""
_MPI = re.compile(r"libmpi(?:_[a-z]+(?:_\d+)?)?\.so(?:\.\d+)?\Z")
_VARIANT = re.compile(r"/MPI\.(?!cpython|abi)\w+\.")
"""Matches a file in mpi4py's wheels such as MPI.openmpi.cpython-*. mpi4py loads the file whose MPI library exists."""
_TRANSPORT = re.compile(r"libmpi_gtl_\w+\.so")
"""Matches Cray MPICH's GPU transport layer (GTL). Its MPI library is libmpi.so or libmpi_COMPILER_VERSION.so."""
_MPI_VERSION = re.compile(r"libmpi\w*\.so\.(\d+)[.\d]*\Z")
"""Matches the version in a file name: libmpi.so.12 is MPICH's library, and libmpi.so.40 is Open MPI's."""
_CUDA = re.compile(r"\+cu(\d\d)\d\b|nvidia-cuda-runtime-cu(\d\d)")


def libraries_here(
    environ: Mapping[str, str], python: PythonHere | None, directories: Sequence[str], gone: Sequence[str]
) -> Libraries:
    """Return the libraries that the loader finds.

    directories, gone: the directories in LD_LIBRARY_PATH that exist, and those that do not exist.
    """
    places = dict.fromkeys(directories, LIBRARY_PATH)
    places |= {folder: "" for folder in default_directories() if folder not in places}
    found = {name: found_in(places, pattern) for name, pattern in PATTERNS.items()}
    providers, silent = _providers(environ)
    return Libraries(
        found=found,
        plugin_lacks=tuple(_lacking(found[PLUGIN], places)),
        mpi_users=tuple(_mpi_users(environ, python, places)),
        gone=tuple(gone),
        providers=providers,
        silent=silent,
        driver_cuda=driver_cuda() if python and python.versions("torch") else 0,
    )


def search_path(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the directories in LD_LIBRARY_PATH that exist, and those that do not exist."""
    named = [entry for entry in environ.get(LIBRARY_PATH, "").replace(";", ":").split(":") if entry]
    present = [entry for entry in named if os.path.isdir(entry)]
    return present, [entry for entry in named if entry not in present]


def default_directories() -> list[str]:
    """Return the directories that the loader searches last."""
    lines: list[str] = []
    try:
        for file in sorted(CONFIGURATION.glob("*.conf")):
            lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    configured = [line.strip() for line in lines if line.startswith("/")]
    machine = f"{platform.machine()}-linux-gnu"
    return [*configured, "/lib64", "/usr/lib64", f"/lib/{machine}", f"/usr/lib/{machine}", "/lib", "/usr/lib"]


def found_in(directories: Iterable[str], pattern: str) -> tuple[str, ...]:
    """Return the files in directories that match a pattern, only the first of several files with the same name."""
    files: dict[str, str] = {}
    for directory in directories:
        try:
            names = sorted(fnmatch.filter(os.listdir(directory), pattern))
        except OSError:
            continue
        for name in names:
            files.setdefault(name, os.path.join(directory, name))
    return tuple(files.values())


def driver_cuda() -> int:
    """Return the major version of the newest CUDA that libcuda of the driver supports, or 0 without a driver."""
    version = ctypes.c_int(0)
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else version.value // 1000


def _providers(environ: Mapping[str, str]) -> tuple[frozenset[str] | None, tuple[str, ...]]:
    """Return the providers that libfabric's fi_info lists, and the programs that did not answer.

    fi_info runs only if FI_PROVIDER is set. The providers are None if fi_info did not run or failed.
    """
    program = shutil.which("fi_info", path=environ.get("PATH")) if environ.get("FI_PROVIDER") else None
    try:
        answer = processes.ask([program, "-l"], env=environ) if program else None
    except NoAnswer as error:
        return None, (error.program,)
    except UenvtoolError:
        return None, ()
    if answer is None or answer.code != 0:
        return None, ()
    return frozenset(line.rstrip(":") for line in answer.stdout.splitlines() if line.endswith(":")), ()


def resolved(user: str, library: str, places: Mapping[str, str]) -> tuple[str, str]:
    """Return the path that the loader uses for a library that a file needs, and the reason; empty if not found.

    places: the directories of the loader, each with its origin, such as LIBRARY_PATH.
    """
    needed, folder_of_user = needs_of(user), os.path.dirname(os.path.realpath(user))
    reason = f"{'RUNPATH' if needed.is_late else 'RPATH'} of {os.path.basename(user)}"
    own = {folder.replace("$ORIGIN", folder_of_user): reason for folder in needed.folders}
    early = {folder: place for folder, place in places.items() if place == LIBRARY_PATH}
    order = {**early, **own} if needed.is_late else {**own, **early}
    paths = ((os.path.join(folder, library), why) for folder, why in (*order.items(), *places.items()))
    return next((pair for pair in paths if os.path.exists(pair[0])), ("", ""))


def _lacking(plugins: tuple[str, ...], places: Mapping[str, str]) -> Iterator[str]:
    for plugin in plugins[:1]:
        yield from (library for library in needs_of(plugin).libraries if not resolved(plugin, library, places)[0])


def _mpi_users(environ: Mapping[str, str], python: PythonHere | None, places: Mapping[str, str]) -> Iterator[MpiUser]:
    """Yield the files in Python packages that need an MPI library. All of them use a GTL in LD_PRELOAD."""
    if python is None or not (python.versions("mpi4py") or python.versions("torch")):
        return
    preloaded = _TRANSPORT.search(environ.get("LD_PRELOAD", "")) is not None
    files = [path for folder in python.folders for part in MPI_USERS for path in glob.iglob(f"{folder}/{part}")]
    for path in files:
        needed = needs_of(path)
        for mpi in filter(_MPI.match, needed.libraries):
            library, _ = resolved(path, mpi, places)
            if not library and _VARIANT.search(path):
                continue
            linked = [*needed.libraries, *needs_of(library).libraries]
            yield MpiUser(path=path, mpi=mpi, transport=preloaded or any(map(_TRANSPORT.match, linked)))


def wrong_libraries(snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault for each missing, conflicting or outdated library."""
    if snapshot.is_at_work:
        yield from _plugin(snapshot.environ.get("NCCL_NET", ""), snapshot.libraries)
        yield from _provider(snapshot.environ.get("FI_PROVIDER", ""), snapshot.libraries.providers)
    yield from map(no_answer, snapshot.libraries.silent)
    yield from _driver(snapshot)
    yield from _interfaces(snapshot.libraries)
    unlinked = [user.path for user in snapshot.libraries.mpi_users if not user.transport]
    if snapshot.is_at_work and snapshot.environ.get(GPU_SUPPORT) == "1" and unlinked:
        yield Fault("gtl-not-linked", f"neither {unlinked[0]} nor its MPI library is linked with libmpi_gtl")
    if snapshot.libraries.gone and snapshot.is_at_work:
        yield Fault("host-variable-left", ", ".join(snapshot.libraries.gone[:3]))


def _interfaces(libraries: Libraries) -> Iterator[Fault]:
    """Yield a fault if the MPI libraries on the library path and those that packages need have different versions."""
    versions: dict[str, str] = {}
    needed = [(user.mpi, f"{user.mpi} needed by {user.path}") for user in libraries.mpi_users]
    for name, shown in [*((path, path) for path in libraries.found.get(MPI, ())), *needed]:
        match = _MPI_VERSION.search(name)
        if match:
            versions.setdefault(match[1], shown)
    if len(versions) > 1:
        yield Fault("two-mpis", " and ".join(list(versions.values())[:2]))


def _plugin(network: str, libraries: Libraries) -> Iterator[Fault]:
    if network in BUILT_IN:
        return
    if not libraries.found.get(PLUGIN):
        yield Fault("plugin-not-found", f"NCCL_NET={network}, but libnccl-net.so was not found")
    elif libraries.plugin_lacks:
        missing = ", ".join(libraries.plugin_lacks[:3])
        yield Fault("plugin-not-found", f"{libraries.found[PLUGIN][0]} needs {missing}, which was not found")


def _provider(requested: str, offered: frozenset[str] | None) -> Iterator[Fault]:
    is_exclusion = requested.startswith("^")  # the value names the providers that libfabric must not use
    if requested and offered is not None and not is_exclusion and not set(re.split("[,;]", requested)) & offered:
        names = ", ".join(sorted(offered)) or "no provider"
        yield Fault("provider-missing", f"FI_PROVIDER={requested}, but libfabric offers {names}")


def _driver(snapshot: Snapshot) -> Iterator[Fault]:
    for package in snapshot.python.packages if snapshot.python else ():
        match = _CUDA.search(f"+{package.version.partition('+')[2]}" if package.name == "torch" else package.name)
        if match and 0 < snapshot.libraries.driver_cuda < int(match[1] or match[2]):
            detail = f"{package.name} {package.version}, but the driver supports CUDA {snapshot.libraries.driver_cuda}"
            yield Fault("driver-too-old", detail)
            return
