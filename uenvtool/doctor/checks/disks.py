"""Files that all ranks of a job use at once: on which disk, how many; memory as a disk; core dumps."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.core import quoting
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot

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


def check(here: Snapshot) -> Iterator[Fault]:
    """Yield what makes a shared disk slow or full."""
    venv = here.on_disk.venv
    if venv and venv.disk in SHARED and venv.files >= MANY_FILES:
        detail = f"{venv.path}, {venv.files} files or more on {venv.disk}"
        yield Fault("venv-on-shared-disk", detail, (f"uenvtool venv {quoting.sh(venv.path)} --squash",))
    if not here.is_at_work:
        return
    yield from _hub_caches(here)
    for variable, folder in here.on_disk.caches.items():
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
    caches = {name: here.on_disk.caches[name] for name in HUB_CACHES if name in here.on_disk.caches}
    for variable, folder in caches.items():
        inside = any(folder.path.startswith(f"{other.path}/") for other in caches.values())
        if folder.disk in SHARED and folder.files >= MANY_FILES and not inside:
            detail = f"{variable} {folder.path}, {folder.files} files or more on {folder.disk}"
            yield Fault(
                "hub-cache-on-shared-disk", detail, (f"mksquashfs {quoting.sh_word(folder.path)} hub.squashfs",)
            )
