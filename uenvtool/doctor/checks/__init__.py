"""The checks of a shell: each a function from what is there to what is wrong with it, one module for each matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from uenvtool.doctor.checks import container, disks, libraries, packages, process, variables
from uenvtool.doctor.finding import Fault, Finding
from uenvtool.doctor.secrets import without_secrets
from uenvtool.doctor.snapshot import Snapshot
from uenvtool.knowledge.finding import KnownFinding

CHECKS = (
    variables.check,
    container.check,
    libraries.check,
    packages.check,
    process.check,
    disks.check,
)
"""Every check, in the order in which findings of one severity are shown."""


def faults(here: Snapshot) -> list[Fault]:
    """Return what is wrong with what is there."""
    return [fault for check in CHECKS for fault in check(here)]


def as_findings(found: Iterable[Fault], known: Mapping[str, KnownFinding]) -> list[Finding]:
    """Return faults with what is known of each."""
    return [
        Finding(known=known[fault.id], detail=without_secrets(fault.detail), commands=fault.commands) for fault in found
    ]
