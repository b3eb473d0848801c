"""What files and libraries say: what the loader would find, the environment and the caches, what libfabric offers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from uenvtool import tools
from uenvtool.doctor.checks import libraries
from uenvtool.doctor.gather import disks, loader
from uenvtool.doctor.snapshot import Folder, OnDisk, PythonHere
from uenvtool.errors import UenvtoolError
from uenvtool.image.elf import needs

LIBRARIES = {libraries.PLUGIN: "libnccl-net*.so*", libraries.MPI: "libmpi.so*"}
CACHES = {"TRITON_HOME": ".triton", "TRITON_CACHE_DIR": "", "CUDA_CACHE_PATH": ".nv"}
"""Variables that name a cache, and where it is below HOME if it is not set."""
LARGEST_LIBRARY = 256_000_000


def on_disk(environ: Mapping[str, str], python: PythonHere | None, folders: list[str], gone: list[str]) -> OnDisk:
    """What files and libraries say."""
    everywhere = [*folders, *loader.usual_folders()]
    found = {name: loader.found(everywhere, pattern) for name, pattern in LIBRARIES.items()}
    mounted = disks.mounts()
    return OnDisk(
        libraries=found,
        plugin_lacks=tuple(_lacking(found[libraries.PLUGIN], everywhere)),
        gone=tuple(gone),
        venv=disks.folder(python.environment, mounted) if python and python.environment else None,
        caches=dict(_caches(environ, python, mounted)),
        providers=_providers(environ),
        driver_cuda=loader.driver_cuda() if python and python.versions("torch") else 0,
    )


def _providers(environ: Mapping[str, str]) -> frozenset[str] | None:
    """The networks that libfabric offers, by its own program, if one is asked for."""
    program = shutil.which("fi_info", path=environ.get("PATH")) if environ.get("FI_PROVIDER") else None
    try:
        answer = tools.run([program, "-l"], env=environ) if program else None
    except UenvtoolError:
        return None
    if answer is None or answer.code != 0:
        return None
    return frozenset(line.rstrip(":") for line in answer.stdout.splitlines() if line.endswith(":"))


def _lacking(plugins: tuple[str, ...], folders: list[str]) -> Iterator[str]:
    """The libraries that the first plugin needs, and that are neither where it says nor where the loader looks."""
    for plugin in plugins[:1]:
        try:
            content = Path(plugin).read_bytes() if os.path.getsize(plugin) < LARGEST_LIBRARY else b""
        except OSError:
            return
        needed = needs(content)
        own = [folder.replace("$ORIGIN", os.path.dirname(os.path.realpath(plugin))) for folder in needed.folders]
        for library in needed.libraries:
            if not any(os.path.exists(os.path.join(folder, library)) for folder in [*own, *folders]):
                yield library


def _caches(
    environ: Mapping[str, str], python: PythonHere | None, mounted: dict[str, str]
) -> Iterator[tuple[str, Folder]]:
    """The caches of compiled kernels that torch would use."""
    has_torch = python is not None and bool(python.versions("torch"))
    for variable, usual in CACHES.items():
        if variable == "CUDA_CACHE_PATH" and environ.get("CUDA_CACHE_DISABLE") == "1":
            continue
        default = os.path.join(environ.get("HOME", ""), usual) if usual and has_torch and environ.get("HOME") else ""
        path = environ.get(variable) or default
        if path:
            yield variable, disks.folder(path, mounted)
