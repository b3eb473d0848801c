"""The libraries that the loader finds (ld.so(8)), and what is wrong: NCCL's plugin, libfabric, one MPI, the driver."""

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
from uenvtool.core.elf import Needs, needs_of
from uenvtool.core.errors import UenvtoolError
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Libraries, MpiUser, Snapshot
from uenvtool.venv.health import PythonHere

PLUGIN, MPI = "libnccl-net", "libmpi"
PATTERNS = {PLUGIN: "libnccl-net*.so*", MPI: "libmpi.so*"}
CONFIGURATION = Path("/etc/ld.so.conf.d")
MPI_USERS = ("mpi4py/MPI*.so", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so")
"""The compiled parts of packages that are linked with an MPI, if the package is built with one."""
GPU_SUPPORT = "MPICH_GPU_SUPPORT_ENABLED"
BUILT_IN = ("", "Socket", "IB")
"""The networks that NCCL has without a plugin."""
_MPI = re.compile(r"libmpi(?:_[a-z]+(?:_\d+)?)?\.so(?:\.\d+)?\Z")
_VARIANT = re.compile(r"/MPI\.(?!cpython|abi)\w+\.")
"""A part of mpi4py's wheels, such as MPI.openmpi.cpython-...: one for each MPI, and the one that works is loaded."""
_TRANSPORT = re.compile(r"libmpi_gtl_\w+\.so")
"""Cray MPICH's GPU transport layer; its MPI is libmpi.so, or libmpi_COMPILER_VERSION.so."""
_MPI_VERSION = re.compile(r"libmpi\w*\.so\.(\d+)[.\d]*\Z")
_CUDA = re.compile(r"\+cu(\d\d)\d\b|nvidia-cuda-runtime-cu(\d\d)")


def libraries_here(
    environ: Mapping[str, str], python: PythonHere | None, folders: Sequence[str], gone: Sequence[str]
) -> Libraries:
    """Return what the loader would find. folders, gone: what the library path names, and what of it is not there."""
    everywhere = [*folders, *usual_folders()]
    found = {name: found_in(everywhere, pattern) for name, pattern in PATTERNS.items()}
    return Libraries(
        found=found,
        plugin_lacks=tuple(_lacking(found[PLUGIN], everywhere)),
        mpi_users=tuple(_mpi_users(environ, python, everywhere)),
        gone=tuple(gone),
        providers=_providers(environ),
        driver_cuda=driver_cuda() if python and python.versions("torch") else 0,
    )


def search_path(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the folders of LD_LIBRARY_PATH that are there, and those that are not."""
    named = [entry for entry in environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":") if entry]
    present = [entry for entry in named if os.path.isdir(entry)]
    return present, [entry for entry in named if entry not in present]


def usual_folders() -> list[str]:
    """Return the folders that the loader knows without LD_LIBRARY_PATH."""
    lines: list[str] = []
    try:
        for file in sorted(CONFIGURATION.glob("*.conf")):
            lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    configured = [line.strip() for line in lines if line.startswith("/")]
    machine = f"{platform.machine()}-linux-gnu"
    return [*configured, "/lib64", "/usr/lib64", f"/lib/{machine}", f"/usr/lib/{machine}", "/lib", "/usr/lib"]


def found_in(folders: Iterable[str], pattern: str) -> tuple[str, ...]:
    """Return the files of that pattern in the folders, one for each name in the order of the folders."""
    files: dict[str, str] = {}
    for folder in folders:
        try:
            names = sorted(fnmatch.filter(os.listdir(folder), pattern))
        except OSError:
            continue
        for name in names:
            files.setdefault(name, os.path.join(folder, name))
    return tuple(files.values())


def driver_cuda() -> int:
    """Return the major version of the newest CUDA that the driver knows, by its own library; 0 without a driver."""
    version = ctypes.c_int(0)
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else version.value // 1000


def _providers(environ: Mapping[str, str]) -> frozenset[str] | None:
    """Return the networks that libfabric offers, by its own program, if one is asked for."""
    program = shutil.which("fi_info", path=environ.get("PATH")) if environ.get("FI_PROVIDER") else None
    try:
        answer = processes.run([program, "-l"], env=environ) if program else None
    except UenvtoolError:
        return None
    if answer is None or answer.code != 0:
        return None
    return frozenset(line.rstrip(":") for line in answer.stdout.splitlines() if line.endswith(":"))


def _lacking(plugins: tuple[str, ...], folders: Sequence[str]) -> Iterator[str]:
    for plugin in plugins[:1]:
        needed = needs_of(plugin)
        yield from (library for library in needed.libraries if not _resolved(plugin, needed, library, folders))


def _resolved(path: str, needed: Needs, library: str, folders: Sequence[str]) -> str:
    """Return the file of a library that the file `path` needs, where the loader finds it; empty if it does not."""
    own = [folder.replace("$ORIGIN", os.path.dirname(os.path.realpath(path))) for folder in needed.folders]
    candidates = (os.path.join(folder, library) for folder in [*own, *folders])
    return next(filter(os.path.exists, candidates), "")


def _mpi_users(environ: Mapping[str, str], python: PythonHere | None, folders: Sequence[str]) -> Iterator[MpiUser]:
    """Yield what Python loads that needs an MPI. A library that is loaded before all has the GTL for all."""
    if python is None or not (python.versions("mpi4py") or python.versions("torch")):
        return
    preloaded = _TRANSPORT.search(environ.get("LD_PRELOAD", "")) is not None
    files = [path for folder in python.folders for part in MPI_USERS for path in glob.iglob(f"{folder}/{part}")]
    for path in files:
        needed = needs_of(path)
        for mpi in filter(_MPI.match, needed.libraries):
            found = _resolved(path, needed, mpi, folders)
            if not found and _VARIANT.search(path):
                continue
            its = needs_of(found).libraries
            yield MpiUser(
                path=path, mpi=mpi, transport=preloaded or any(map(_TRANSPORT.match, [*needed.libraries, *its]))
            )


def wrong_libraries(here: Snapshot) -> Iterator[Fault]:
    """Yield what is missing or double where the loader looks."""
    if here.is_at_work:
        yield from _plugin(here.environ.get("NCCL_NET", ""), here.libraries)
        yield from _provider(here.environ.get("FI_PROVIDER", ""), here.libraries.providers)
    yield from _driver(here)
    yield from _interfaces(here.libraries)
    unlinked = [user.path for user in here.libraries.mpi_users if not user.transport]
    if here.is_at_work and here.environ.get(GPU_SUPPORT) == "1" and unlinked:
        yield Fault("gtl-not-linked", f"{unlinked[0]} needs no libmpi_gtl, and nor does its MPI")
    if here.libraries.gone and here.is_at_work:
        yield Fault("host-variable-left", ", ".join(here.libraries.gone[:3]))


def _interfaces(seen: Libraries) -> Iterator[Fault]:
    """Yield two MPIs: of another version for the loader (libmpi.so.12 is MPICH's, libmpi.so.40 is Open MPI's).

    Found are those on the library path, and those that packages of Python are linked with.
    """
    versions: dict[str, str] = {}
    needed = [(user.mpi, f"{user.mpi} that {user.path} needs") for user in seen.mpi_users]
    for name, shown in [*((path, path) for path in seen.found.get(MPI, ())), *needed]:
        match = _MPI_VERSION.search(name)
        if match:
            versions.setdefault(match[1], shown)
    if len(versions) > 1:
        yield Fault("two-mpis", " and ".join(list(versions.values())[:2]))


def _plugin(network: str, seen: Libraries) -> Iterator[Fault]:
    """Yield a network of NCCL's whose plugin is not found, or cannot be loaded."""
    if network in BUILT_IN:
        return
    if not seen.found.get(PLUGIN):
        yield Fault("plugin-not-found", f"NCCL_NET={network}, and no libnccl-net.so")
    elif seen.plugin_lacks:
        yield Fault("plugin-not-found", f"{seen.found[PLUGIN][0]} needs {', '.join(seen.plugin_lacks[:3])}")


def _provider(wanted: str, offered: frozenset[str] | None) -> Iterator[Fault]:
    """Yield a network that libfabric is to take and does not offer; a list with `^` in front names what it leaves."""
    if wanted and offered is not None and not wanted.startswith("^") and not set(re.split("[,;]", wanted)) & offered:
        names = ", ".join(sorted(offered)) or "nothing"
        yield Fault("provider-missing", f"FI_PROVIDER={wanted}, and libfabric offers {names}")


def _driver(here: Snapshot) -> Iterator[Fault]:
    """Yield a torch for a newer CUDA than the driver knows: drivers run older ones, and all of their major version."""
    for package in here.python.packages if here.python else ():
        match = _CUDA.search(f"+{package.version.partition('+')[2]}" if package.name == "torch" else package.name)
        if match and 0 < here.libraries.driver_cuda < int(match[1] or match[2]):
            detail = f"{package.name} {package.version}, and the driver knows CUDA {here.libraries.driver_cuda}"
            yield Fault("driver-too-old", detail)
            return
