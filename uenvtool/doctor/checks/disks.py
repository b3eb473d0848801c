"""Files that all ranks of a job use at once: on which disk, how many; memory as a disk; core dumps."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool import quoting
from uenvtool.doctor.checks import Fault
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
"""Variables that name a cache, and what keeps the cache from the disk."""


def check(here: Snapshot) -> Iterator[Fault]:
    """What makes a shared disk slow or full."""
    venv = here.on_disk.venv
    if venv and venv.disk in SHARED and venv.files >= MANY_FILES:
        detail = f"{venv.path}, {venv.files} files or more on {venv.disk}"
        yield Fault("venv-on-shared-disk", detail, (f"uenvtool venv {quoting.sh(venv.path)} --squash",))
    if not here.is_at_work:
        return
    for variable, folder in here.on_disk.caches.items():
        if folder.disk in SHARED:
            mend = "uenvtool activate" if here.in_container and "TRITON" in variable else SETTINGS[variable]
            yield Fault("cache-on-shared-disk", f"{variable} {folder.path} on {folder.disk}", (mend,))
    if here.shm and min(here.shm) < LITTLE_MEMORY:
        unused, whole = (size // 1024**2 for size in here.shm)
        yield Fault("shm-small", f"{unused} MB of {whole} MB are free")
    if here.core_limit:
        yield Fault("core-dumps-on", "without limit" if here.core_limit < 0 else f"up to {here.core_limit} bytes")
