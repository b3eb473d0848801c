"""How the ranks meet: a free port, names that have addresses; and where jobs may be submitted."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot


def check(here: Snapshot) -> Iterator[Fault]:
    """What keeps the ranks from meeting."""
    port = here.environ.get("MASTER_PORT", "")
    master = here.environ.get("MASTER_ADDR", "")
    if here.job and port.isdecimal() and int(port[:9]) in here.listening and _is_here(master, here.node):
        yield Fault("port-taken", port)
    if here.is_at_work and here.unresolved:
        yield Fault("host-unresolved", ", ".join(here.unresolved))
    if here.views and here.job is None and not here.in_container:
        yield Fault("inside-uenv-session", here.views[0].uenv)


def _is_here(master: str, node: str) -> bool:
    """Tell if the name of the master is this node's, with its domain or without."""
    return master.partition(".")[0] in (node.partition(".")[0], "localhost")
