"""Threads against the cores that this process may use."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot


def check(here: Snapshot) -> Iterator[Fault]:
    """More threads than cores."""
    threads = here.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if here.cores and threads.isdecimal() and int(threads[:9]) > here.cores:
        detail = f"{threads} threads on {here.cores} core{'' if here.cores == 1 else 's'}"
        yield Fault("threads-over-cores", detail, (f"export OMP_NUM_THREADS={here.cores}",))
