"""What a rank needs of its node: cores for its threads, a free port, names with addresses; and where jobs are sent."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot


def check(here: Snapshot) -> Iterator[Fault]:
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
