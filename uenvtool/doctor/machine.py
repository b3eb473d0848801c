"""This machine as a process sees it: its cores, memory as a disk, limits, ports and names."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterable
from pathlib import Path

SECONDS = 2.0
"""How long a name service may take: doctor is not to hang where a job does."""
_LISTENING = "0A"
PORT_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
MEMORY = "/dev/shm"  # noqa: S108  only looked at


def cores() -> int | None:
    """The cores that this process may use: those that it is bound to, and no more than its group's share."""
    try:
        bound = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count()
    quota, _, period = _text(CPU_LIMIT).strip().partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        return max(1, min(bound, -(-int(quota) // int(period))))
    return bound


def memory_disk() -> tuple[int, int] | None:
    """Free and whole bytes of /dev/shm; None if there is none."""
    try:
        seen = os.statvfs(MEMORY)
    except OSError:
        return None
    return seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize


def core_limit() -> int:
    """How many bytes a core dump may have; -1 without limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    return -1 if soft == resource.RLIM_INFINITY else soft


def listening() -> frozenset[int]:
    """The ports on which something listens here (proc_pid_net(5))."""
    rows = (line.split() for table in PORT_TABLES for line in _text(table).splitlines()[1:])
    texts = (row[1].rpartition(":")[2] for row in rows if len(row) > 3 and row[3] == _LISTENING)
    return frozenset(int(text, 16) for text in texts if all(letter in "0123456789ABCDEF" for letter in text) and text)


def unresolved(names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that have no address. A name service that does not answer in time says nothing."""
    from threading import Thread

    failed: dict[str, bool] = {}

    def resolve(name: str) -> None:
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
