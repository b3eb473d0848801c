"""This machine as a process sees it: cores, memory as a disk, limits, ports, names; and what a rank lacks there."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread

from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot

SECONDS = 2.0
"""How long a name service may take: doctor is not to hang where a job does."""
_LISTENING = "0A"
PORT_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
MEMORY = "/dev/shm"  # only looked at


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


def wrong_process(here: Snapshot) -> Iterator[Fault]:
    """Yield more threads than cores, and what keeps the ranks from meeting."""
    threads = here.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if here.cores and threads.isdecimal() and int(threads[:9]) > here.cores:
        detail = f"{threads} threads on {here.cores} core{'' if here.cores == 1 else 's'}"
        yield Fault("threads-over-cores", detail, (f"export OMP_NUM_THREADS={here.cores}",))
    port, master = (here.environ.get(name, "") for name in ("MASTER_PORT", "MASTER_ADDR"))
    is_master = master.partition(".")[0] in (here.node.partition(".")[0], "localhost")  # its domain may be left out
    if here.job and port.isdecimal() and int(port[:9]) in here.listening and is_master:
        yield Fault("address-in-use", port)
    if here.is_at_work and here.unresolved:
        yield Fault("master-unreachable", ", ".join(here.unresolved))
    if here.views and here.job is None and not here.in_container:
        yield Fault("inside-uenv-session", here.views[0].uenv)
