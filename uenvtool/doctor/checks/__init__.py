"""The checks of a shell: each a function from what is there to what is wrong with it, one module for each matter."""

from __future__ import annotations

from uenvtool.doctor.checks import container, disks, libraries, packages, process, variables
from uenvtool.doctor.finding import Fault
from uenvtool.doctor.snapshot import Snapshot

CHECKS = (variables.check, container.check, libraries.check, packages.check, process.check, disks.check)
"""Every check, in the order in which findings of one severity are shown."""


def faults(here: Snapshot) -> list[Fault]:
    """Return what is wrong with what is there."""
    return [fault for check in CHECKS for fault in check(here)]
