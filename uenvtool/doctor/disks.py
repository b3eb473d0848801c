"""Checks of caches and virtual environments on shared file systems, of /dev/shm, and of core dumps."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from uenvtool.core import quoting
from uenvtool.core.session import MOUNTS
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Directory, Snapshot
from uenvtool.venv.health import PythonHere

SHARED = ("lustre", "gpfs", "beegfs", "nfs", "nfs4", "ceph", "wekafs", "cifs")
"""The types of file systems that nodes share, as named in /proc/self/mountinfo."""
MANY_FILES = 2_000
LITTLE_MEMORY = 512 * 1024**2
SETTINGS = {
    "TRITON_HOME": "export TRITON_HOME=/dev/shm/",
    "TRITON_CACHE_DIR": "unset TRITON_CACHE_DIR; export TRITON_HOME=/dev/shm/",
    "CUDA_CACHE_PATH": "export CUDA_CACHE_DISABLE=1",
}
"""The variables that name a kernel cache, each with a command that moves or disables the cache."""
HUB_CACHES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "HF_DATASETS_CACHE")
"""The variables that name a cache of models and datasets. A cache with few files may be on a shared disk."""
USUAL = {
    "TRITON_HOME": ("torch", "~/.triton"),
    "CUDA_CACHE_PATH": ("torch", "~/.nv"),
    "HF_HOME": ("huggingface-hub", "$XDG_CACHE_HOME/huggingface"),
}
"""For each variable, the package that uses the cache and the cache's default path."""


def caches(
    environ: Mapping[str, str], python: PythonHere | None, mounted: dict[str, str]
) -> Iterator[tuple[str, Directory]]:
    """Yield the variable and the directory of each cache that the environment or an installed package uses."""
    home = environ.get("HOME", "")
    for variable in (*SETTINGS, *HUB_CACHES):
        if variable == "CUDA_CACHE_PATH" and environ.get("CUDA_CACHE_DISABLE") == "1":
            continue
        package, usual = USUAL.get(variable, ("", ""))
        is_used = bool(home and python and python.versions(package))
        usual = usual.replace("$XDG_CACHE_HOME", environ.get("XDG_CACHE_HOME") or "~/.cache").replace("~", home)
        path = environ.get(variable) or (usual if is_used else "")
        if path:
            yield variable, directory_at(path, mounted)


def mounts(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the file system type of each mount point (proc_pid_mountinfo(5))."""
    table = Path(environ.get("UENVTOOL_ROOT", "") + MOUNTS)
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return {}
    types = {}
    for line in lines:
        mount, dash, file_system = line.partition(" - ")
        fields = mount.split()
        if dash and len(fields) > 4 and file_system:
            types[fields[4].replace("\\040", " ")] = file_system.split()[0]
    return types


def directory_at(path: str, mounted: dict[str, str]) -> Directory:
    """Return a directory with its file system type and, on a shared disk, its number of files up to MANY_FILES."""
    real = os.path.realpath(path)
    above = [real, *map(str, Path(real).parents)]
    disk = next((mounted[point] for point in above if point in mounted), "")
    files = (name for _, _, names in os.walk(real if disk in SHARED else os.devnull) for name in names)
    return Directory(path=path, disk=disk, files=sum(1 for _ in itertools.islice(files, MANY_FILES)))


def wrong_disks(snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault for each directory or limit that slows down or fills a disk, and if /dev/shm is nearly full."""
    venv = snapshot.venv
    if venv and venv.disk in SHARED and venv.files >= MANY_FILES:
        detail = f"{venv.path}, at least {venv.files} files on {venv.disk}"
        yield Fault("venv-on-shared-disk", detail, (f"uenvtool venv {quoting.sh(venv.path)} --squash",))
    if not snapshot.is_at_work:
        return
    yield from _hub_caches(snapshot)
    for variable, directory in snapshot.caches.items():
        if directory.disk in SHARED and variable in SETTINGS:
            fix = "uenvtool activate" if snapshot.in_container and "TRITON" in variable else SETTINGS[variable]
            yield Fault("cache-on-shared-disk", f"{variable} {directory.path} on {directory.disk}", (fix,))
    if snapshot.shm and min(snapshot.shm) < LITTLE_MEMORY:
        unused, whole = (size // 1024**2 for size in snapshot.shm)
        yield Fault("shm-small", f"{unused} MB of {whole} MB are free")
    if snapshot.core_limit:
        limit = "no size limit" if snapshot.core_limit < 0 else f"up to {snapshot.core_limit} bytes"
        yield Fault("core-dumps-on", limit)


def _hub_caches(snapshot: Snapshot) -> Iterator[Fault]:
    hub_caches = {name: cache for name, cache in snapshot.caches.items() if name in HUB_CACHES}
    for variable, cache in hub_caches.items():
        is_nested = any(cache.path.startswith(f"{other.path}/") for other in hub_caches.values())
        if cache.disk in SHARED and cache.files >= MANY_FILES and not is_nested:
            detail = f"{variable} {cache.path}, at least {cache.files} files on {cache.disk}"
            yield Fault("hub-cache-on-shared-disk", detail, (f"mksquashfs {quoting.sh_word(cache.path)} hub.squashfs",))
