"""Checks of the cores, /dev/shm, limits, ports and host names that this process can use."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Thread

from uenvtool.core.words import counted
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot

SECONDS = 2.0
"""The timeout of a host name lookup, so that doctor does not hang if the name service is broken."""
_LISTENING = "0A"
PORT_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")
MEMORY = "/dev/shm"  # never written to


def cores() -> int:
    """Return the number of cores that this process may use, limited by its CPU binding and its cgroup's quota."""
    bound = len(os.sched_getaffinity(0))
    quota, _, period = _text(CPU_LIMIT).strip().partition(" ")
    if quota.isdecimal() and period.isdecimal() and int(period):
        return max(1, min(bound, -(-int(quota) // int(period))))
    return bound


def memory_disk() -> tuple[int, int] | None:
    """Return the free and total bytes of /dev/shm, or None if it does not exist."""
    try:
        status = os.statvfs(MEMORY)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize


def core_limit() -> int:
    """Return the maximum size of a core dump in bytes, or -1 if the size is unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_CORE)
    return -1 if soft == resource.RLIM_INFINITY else soft


def listening() -> frozenset[int]:
    """Return the ports on which a process of this machine listens (proc_pid_net(5))."""
    rows = (line.split() for table in PORT_TABLES for line in _text(table).splitlines()[1:])
    texts = (row[1].rpartition(":")[2] for row in rows if len(row) > 3 and row[3] == _LISTENING)
    return frozenset(int(text, 16) for text in texts if all(letter in "0123456789ABCDEF" for letter in text) and text)


def unresolved(names: Iterable[str]) -> tuple[str, ...]:
    """Return the host names that have no address. A name whose lookup exceeds the timeout is not returned."""
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


def wrong_process(snapshot: Snapshot) -> Iterator[Fault]:
    """Yield a fault if OMP_NUM_THREADS exceeds the cores, and for each reason why ranks cannot join the rendezvous."""
    threads = snapshot.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if snapshot.cores and threads.isdecimal() and int(threads[:9]) > snapshot.cores:
        detail = f"{threads} threads on {counted(snapshot.cores, 'core')}"
        yield Fault("threads-over-cores", detail, (f"export OMP_NUM_THREADS={snapshot.cores}",))
    port, master = (snapshot.environ.get(name, "") for name in ("MASTER_PORT", "MASTER_ADDR"))
    host = master.partition(".")[0]  # without the domain
    is_master = host in (snapshot.node.partition(".")[0], "localhost")
    if snapshot.job and port.isdecimal() and int(port[:9]) in snapshot.listening and is_master:
        yield Fault("address-in-use", port)
    if snapshot.is_at_work and snapshot.unresolved:
        yield Fault("master-unreachable", ", ".join(snapshot.unresolved))
    if snapshot.views and snapshot.job is None and not snapshot.in_container:
        yield Fault("inside-uenv-session", snapshot.views[0].uenv)
