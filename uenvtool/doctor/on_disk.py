"""What files and libraries say: what the loader would find, the environment and the caches, what libfabric offers."""

from __future__ import annotations

import glob
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.elf import Needs, needs_of
from uenvtool.core.errors import UenvtoolError
from uenvtool.doctor import machine
from uenvtool.doctor.checks import disks, libraries
from uenvtool.doctor.snapshot import Folder, MpiUser, OnDisk, PythonHere

LIBRARIES = {libraries.PLUGIN: "libnccl-net*.so*", libraries.MPI: "libmpi.so*"}
MOUNTS = Path("/proc/self/mountinfo")
USUAL = {
    "TRITON_HOME": ("torch", "~/.triton"),
    "CUDA_CACHE_PATH": ("torch", "~/.nv"),
    "HF_HOME": ("huggingface-hub", "$XDG_CACHE_HOME/huggingface"),
}
"""Where a cache is if its variable is not set, and the package that has it then."""
PATHS = (
    *("VIRTUAL_ENV", "PYTHONHOME", "PYTHONUSERBASE", "CUDA_HOME", "CUDA_PATH", "NCCL_HOME", "LIBFABRIC_HOME"),
    *("MPI_HOME", "TMPDIR", "TRITON_HOME", "HF_HOME", "SSL_CERT_FILE", "LD_PRELOAD", "PYTHONPATH", "UENV_MOUNT_LIST"),
)
"""Variables that name paths, which a job hands on from its host into a container."""
_PATH = re.compile(r"/[^:,;\s]+")
MPI_USERS = ("mpi4py/MPI*.so", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so")
"""The compiled parts of packages that are linked with an MPI, if the package is built with one."""
_MPI = re.compile(r"libmpi(?:_[a-z]+(?:_\d+)?)?\.so(?:\.\d+)?\Z")
_TRANSPORT = re.compile(r"libmpi_gtl_\w+\.so")
"""Cray MPICH's GPU transport layer; its MPI is libmpi.so, or libmpi_COMPILER_VERSION.so."""


def on_disk(environ: Mapping[str, str], python: PythonHere | None, folders: list[str], gone: list[str]) -> OnDisk:
    """Return what files and libraries say."""
    everywhere = [*folders, *machine.usual_folders()]
    found = {name: machine.found(everywhere, pattern) for name, pattern in LIBRARIES.items()}
    mounted = mounts()
    return OnDisk(
        libraries=found,
        plugin_lacks=tuple(_lacking(found[libraries.PLUGIN], everywhere)),
        mpi_users=tuple(_mpi_users(environ, python, everywhere)),
        gone=tuple(gone),
        absent=dict(_absent(environ)),
        venv=folder(python.environment, mounted) if python and python.environment else None,
        caches=dict(_caches(environ, python, mounted)),
        providers=_providers(environ),
        driver_cuda=machine.driver_cuda() if python and python.versions("torch") else 0,
    )


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
            its = needs_of(_resolved(path, needed, mpi, folders)).libraries
            yield MpiUser(
                path=path, mpi=mpi, transport=preloaded or any(map(_TRANSPORT.match, [*needed.libraries, *its]))
            )


def _absent(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that name paths of which one is not there, with that one."""
    for name in PATHS:
        gone = next((path for path in _PATH.findall(environ.get(name, "")) if not os.path.exists(path)), "")
        if gone:
            yield name, gone


def _caches(
    environ: Mapping[str, str], python: PythonHere | None, mounted: dict[str, str]
) -> Iterator[tuple[str, Folder]]:
    home = environ.get("HOME", "")
    for variable in (*disks.SETTINGS, *disks.HUB_CACHES):
        if variable == "CUDA_CACHE_PATH" and environ.get("CUDA_CACHE_DISABLE") == "1":
            continue
        package, usual = USUAL.get(variable, ("", ""))
        is_used = bool(home and python and python.versions(package))
        usual = usual.replace("$XDG_CACHE_HOME", environ.get("XDG_CACHE_HOME") or "~/.cache").replace("~", home)
        path = environ.get(variable) or (usual if is_used else "")
        if path:
            yield variable, folder(path, mounted)


def mounts() -> dict[str, str]:
    """Return mount points with the kinds of their file systems (proc_pid_mountinfo(5))."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        before, dash, behind = line.partition(" - ")
        words = before.split()
        if dash and len(words) > 4 and behind:
            found[words[4].replace("\\040", " ")] = behind.split()[0]
    return found


def folder(path: str, mounted: dict[str, str]) -> Folder:
    """Return a folder with its disk; its files are counted on a shared disk, up to as many as matter."""
    real = os.path.realpath(path)
    above = [real, *map(str, Path(real).parents)]
    disk = next((mounted[point] for point in above if point in mounted), "")
    files = (name for _, _, names in os.walk(real if disk in disks.SHARED else os.devnull) for name in names)
    return Folder(path=path, disk=disk, files=sum(1 for _ in itertools.islice(files, disks.MANY_FILES)))
