"""What a job brought along from the host into its container: paths that are not there, variables of another runtime."""

from __future__ import annotations

from collections.abc import Iterator

from uenvtool.core.words import listed
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot

SET = "UENVTOOL_SET"
"""What an activation on the host names for the containers of its job: its runtime, and the variables that it set."""
LISTED = 4


def check(here: Snapshot) -> Iterator[Fault]:
    """Yield what is left over from the host."""
    if not here.in_container or not here.is_at_work:
        return
    absent = [f"{name}={path}" for name, path in here.on_disk.absent.items()]
    if absent:
        names = " ".join(here.on_disk.absent)
        yield Fault("host-variable-left", f"{listed(absent, LISTED)} is not there", (f"unset {names}",))
    along = list(_along(here))
    if along:
        runtime = here.environ[SET].split()[0]
        yield Fault("host-variable-left", f"{listed(along, LISTED)}, of {runtime}", (f"unset {' '.join(along)}",))


def _along(here: Snapshot) -> Iterator[str]:
    """Yield the variables that an activation set on the host, and this container's tuning does not set.

    What its tuning does set is compared with it elsewhere. One that a hook is to set hides that the hook is off.
    """
    runtime, *names = here.environ.get(SET, "").split() or [""]
    if here.tuned is not None and runtime != here.tuned.runtime:
        own = {setting.name for setting in here.tuned.settings if not setting.is_expected}
        yield from (name for name in names if name in here.environ and name not in own)
