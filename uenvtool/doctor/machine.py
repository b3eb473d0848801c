"""This machine as a process sees it: cores, memory as a disk, limits, ports, names, libraries (ld.so(8))."""

from __future__ import annotations

import fnmatch
import os
import platform
import resource
from collections.abc import Iterable, Mapping
from pathlib import Path

SECONDS = 2.0
"""How long a name service may take: doctor is not to hang where a job does."""
_LISTENING = "0A"
PORT_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
CONFIGURATION = Path("/etc/ld.so.conf.d")
MEMORY = "/dev/shm"  # noqa: S108  only looked at


def cores() -> int:
    """Return the cores that this process may use: those that it is bound to, and no more than its group's share."""
    bound = len(os.sched_getaffinity(0))
    quota, _, period = _text(CPU_LIMIT).strip().partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        return max(1, min(bound, -(-int(quota) // int(period))))
    return bound


def memory_disk() -> tuple[int, int] | None:
    """Return free and whole bytes of /dev/shm; None if there is none."""
    try:
        seen = os.statvfs(MEMORY)
    except OSError:
        return None
    return seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize


def core_limit() -> int:
    """Return how many bytes a core dump may have; -1 without limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    return -1 if soft == resource.RLIM_INFINITY else soft


def listening() -> frozenset[int]:
    """Return the ports on which something listens here (proc_pid_net(5))."""
    rows = (line.split() for table in PORT_TABLES for line in _text(table).splitlines()[1:])
    texts = (row[1].rpartition(":")[2] for row in rows if len(row) > 3 and row[3] == _LISTENING)
    return frozenset(int(text, 16) for text in texts if all(letter in "0123456789ABCDEF" for letter in text) and text)


def unresolved(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the names that have no address. A name service that does not answer in time says nothing."""
    from threading import Thread

    failed: dict[str, bool] = {}

    def resolve(name: str) -> None:
        import socket

        try:
            socket.getaddrinfo(name, None)
        except (OSError, UnicodeError):
            failed[name] = True

    threads = [Thread(target=resolve, args=(name,), daemon=True) for name in dict.fromkeys(filter(None, names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    return tuple(sorted(failed))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


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


def driver_cuda() -> int:
    """Return the major version of the newest CUDA that the driver knows, by its own library; 0 without a driver."""
    import ctypes

    version = ctypes.c_int(0)
    try:
        failed = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return 0 if failed else version.value // 1000


def found(folders: Iterable[str], pattern: str) -> tuple[str, ...]:
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
