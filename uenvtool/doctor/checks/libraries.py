"""The libraries that the loader finds: NCCL's plugin, libfabric, one MPI, the driver; folders that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import OnDisk, Snapshot

PLUGIN, MPI = "libnccl-net", "libmpi"
GPU_SUPPORT = "MPICH_GPU_SUPPORT_ENABLED"
_MPI_VERSION = re.compile(r"libmpi\w*\.so\.(\d+)[.\d]*\Z")
_CUDA = re.compile(r"\+cu(\d\d)\d\b|nvidia-cuda-runtime-cu(\d\d)")
BUILT_IN = ("", "Socket", "IB")
"""The networks that NCCL has without a plugin."""


def check(here: Snapshot) -> Iterator[Fault]:
    """Yield what is missing or double where the loader looks."""
    if here.is_at_work:
        yield from _plugin(here.environ.get("NCCL_NET", ""), here.on_disk)
        yield from _provider(here.environ.get("FI_PROVIDER", ""), here.on_disk.providers)
    yield from _driver(here)
    yield from _interfaces(here.on_disk)
    unlinked = [user.path for user in here.on_disk.mpi_users if not user.transport]
    if here.is_at_work and here.environ.get(GPU_SUPPORT) == "1" and unlinked:
        yield Fault("gtl-not-linked", f"{unlinked[0]} needs no libmpi_gtl, and nor does its MPI")
    if here.on_disk.gone and here.is_at_work:
        yield Fault("host-variable-left", ", ".join(here.on_disk.gone[:3]))


def _interfaces(seen: OnDisk) -> Iterator[Fault]:
    """Yield two MPIs: of another version for the loader (libmpi.so.12 is MPICH's, libmpi.so.40 is Open MPI's).

    Found are those on the library path, and those that packages of Python are linked with.
    """
    versions: dict[str, str] = {}
    needed = [(user.mpi, f"{user.mpi} that {user.path} needs") for user in seen.mpi_users]
    for name, shown in [*((path, path) for path in seen.libraries.get(MPI, ())), *needed]:
        match = _MPI_VERSION.search(name)
        if match:
            versions.setdefault(match[1], shown)
    if len(versions) > 1:
        yield Fault("two-mpis", " and ".join(list(versions.values())[:2]))


def _plugin(network: str, seen: OnDisk) -> Iterator[Fault]:
    """Yield a network of NCCL's whose plugin is not found, or cannot be loaded."""
    if network in BUILT_IN:
        return
    if not seen.libraries.get(PLUGIN):
        yield Fault("plugin-not-found", f"NCCL_NET={network}, and no libnccl-net.so")
    elif seen.plugin_lacks:
        yield Fault("plugin-not-found", f"{seen.libraries[PLUGIN][0]} needs {', '.join(seen.plugin_lacks[:3])}")


def _provider(wanted: str, offered: frozenset[str] | None) -> Iterator[Fault]:
    """Yield a network that libfabric is to take and does not offer; a list with `^` in front names what it leaves."""
    if wanted and offered is not None and not wanted.startswith("^") and not set(re.split("[,;]", wanted)) & offered:
        names = ", ".join(sorted(offered)) or "nothing"
        yield Fault("provider-missing", f"FI_PROVIDER={wanted}, and libfabric offers {names}")


def _driver(here: Snapshot) -> Iterator[Fault]:
    """Yield a torch for a newer CUDA than the driver knows: drivers run older ones, and all of their major version."""
    for package in here.python.packages if here.python else ():
        match = _CUDA.search(f"+{package.version.partition('+')[2]}" if package.name == "torch" else package.name)
        if match and 0 < here.on_disk.driver_cuda < int(match[1] or match[2]):
            detail = f"{package.name} {package.version}, and the driver knows CUDA {here.on_disk.driver_cuda}"
            yield Fault("driver-too-old", detail)
            return
