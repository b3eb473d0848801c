"""Files that all ranks of a job use at once: on which disk, how many; memory as a disk; core dumps."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from uenvtool.core import quoting
from uenvtool.core.session import MOUNTS
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Disks, Folder, Snapshot
from uenvtool.venv.health import PythonHere

SHARED = ("lustre", "gpfs", "beegfs", "nfs", "nfs4", "ceph", "wekafs", "cifs")
"""Kinds of file systems that nodes share, as /proc/self/mountinfo names them."""
MANY_FILES = 2_000
LITTLE_MEMORY = 512 * 1024**2
SETTINGS = {
    "TRITON_HOME": "export TRITON_HOME=/dev/shm/",
    "TRITON_CACHE_DIR": "unset TRITON_CACHE_DIR; export TRITON_HOME=/dev/shm/",
    "CUDA_CACHE_PATH": "export CUDA_CACHE_DISABLE=1",
}
"""Variables that name a cache of kernels, and what keeps the cache from the disk."""
HUB_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_DATASETS_CACHE")
"""Variables that name a cache of models and data. It may lie on a shared disk, as long as its files are few."""
USUAL = {
    "TRITON_HOME": ("torch", "~/.triton"),
    "CUDA_CACHE_PATH": ("torch", "~/.nv"),
    "HF_HOME": ("huggingface-hub", "$XDG_CACHE_HOME/huggingface"),
}
"""Where a cache is if its variable is not set, and the package that has it then."""


def disks_here(environ: Mapping[str, str], python: PythonHere | None) -> Disks:
    """Return where the environment and the caches lie."""
    mounted = mounts(environ)
    return Disks(
        venv=folder(python.environment, mounted) if python and python.environment else None,
        caches=dict(_caches(environ, python, mounted)),
    )


def _caches(
    environ: Mapping[str, str], python: PythonHere | None, mounted: dict[str, str]
) -> Iterator[tuple[str, Folder]]:
    home = environ.get("HOME", "")
    for variable in (*SETTINGS, *HUB_CACHES):
        if variable == "CUDA_CACHE_PATH" and environ.get("CUDA_CACHE_DISABLE") == "1":
            continue
        package, usual = USUAL.get(variable, ("", ""))
        is_used = bool(home and python and python.versions(package))
        usual = usual.replace("$XDG_CACHE_HOME", environ.get("XDG_CACHE_HOME") or "~/.cache").replace("~", home)
        path = environ.get(variable) or (usual if is_used else "")
        if path:
            yield variable, folder(path, mounted)


def mounts(environ: Mapping[str, str]) -> dict[str, str]:
    """Return mount points with the kinds of their file systems (proc_pid_mountinfo(5))."""
    table = Path(environ.get("UENVTOOL_ROOT", "") + MOUNTS)
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
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
    files = (name for _, _, names in os.walk(real if disk in SHARED else os.devnull) for name in names)
    return Folder(path=path, disk=disk, files=sum(1 for _ in itertools.islice(files, MANY_FILES)))


def wrong_disks(here: Snapshot) -> Iterator[Fault]:
    """Yield what makes a shared disk slow or full."""
    venv = here.disks.venv
    if venv and venv.disk in SHARED and venv.files >= MANY_FILES:
        detail = f"{venv.path}, {venv.files} files or more on {venv.disk}"
        yield Fault("venv-on-shared-disk", detail, (f"uenvtool venv {quoting.sh(venv.path)} --squash",))
    if not here.is_at_work:
        return
    yield from _hub_caches(here)
    for variable, folder in here.disks.caches.items():
        if folder.disk in SHARED and variable in SETTINGS:
            mend = "uenvtool activate" if here.in_container and "TRITON" in variable else SETTINGS[variable]
            yield Fault("cache-on-shared-disk", f"{variable} {folder.path} on {folder.disk}", (mend,))
    if here.shm and min(here.shm) < LITTLE_MEMORY:
        unused, whole = (size // 1024**2 for size in here.shm)
        yield Fault("shm-small", f"{unused} MB of {whole} MB are free")
    if here.core_limit:
        yield Fault("core-dumps-on", "without limit" if here.core_limit < 0 else f"up to {here.core_limit} bytes")


def _hub_caches(here: Snapshot) -> Iterator[Fault]:
    """Yield caches of models and data of many files on a shared disk; one that lies in another is counted with that."""
    caches = {name: here.disks.caches[name] for name in HUB_CACHES if name in here.disks.caches}
    for variable, folder in caches.items():
        inside = any(folder.path.startswith(f"{other.path}/") for other in caches.values())
        if folder.disk in SHARED and folder.files >= MANY_FILES and not inside:
            detail = f"{variable} {folder.path}, {folder.files} files or more on {folder.disk}"
            yield Fault(
                "hub-cache-on-shared-disk", detail, (f"mksquashfs {quoting.sh_word(folder.path)} hub.squashfs",)
            )
