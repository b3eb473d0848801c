"""The libraries that the dynamic loader would find (ld.so(8)): LD_LIBRARY_PATH, ld.so.conf, the usual folders."""

from __future__ import annotations

import fnmatch
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path

CONFIGURATION = Path("/etc/ld.so.conf.d")


def search_path(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The folders of LD_LIBRARY_PATH that are there, and those that are not."""
    named = [entry for entry in environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":") if entry]
    present = [entry for entry in named if os.path.isdir(entry)]
    return present, [entry for entry in named if entry not in present]


def usual_folders() -> list[str]:
    """The folders that the loader knows without LD_LIBRARY_PATH."""
    lines: list[str] = []
    try:
        for file in sorted(CONFIGURATION.glob("*.conf")):
            lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    configured = [line.strip() for line in lines if line.startswith("/")]
    machine = f"{platform.machine()}-linux-gnu"
    return [*configured, "/lib64", "/usr/lib64", f"/lib/{machine}", f"/usr/lib/{machine}", "/lib", "/usr/lib"]


def driver_cuda() -> int:
    """The major version of the newest CUDA that the driver knows, by its own library; 0 without a driver."""
    import ctypes

    version = ctypes.c_int(0)
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else version.value // 1000


def found(folders: Iterable[str], pattern: str) -> tuple[str, ...]:
    """The files of that pattern in the folders, one for each name in the order of the folders."""
    files: dict[str, str] = {}
    for folder in folders:
        try:
            names = sorted(fnmatch.filter(os.listdir(folder), pattern))
        except OSError:
            continue
        for name in names:
            files.setdefault(name, os.path.join(folder, name))
    return tuple(files.values())
