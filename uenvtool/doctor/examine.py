"""All checks of a shell, and what is known of what they find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from uenvtool.doctor.checks import Check, Fault, container, disks, libraries, packages, rendezvous, threads, variables
from uenvtool.doctor.finding import Finding
from uenvtool.doctor.secrets import without_secrets
from uenvtool.doctor.snapshot import Snapshot
from uenvtool.knowledge.finding import KnownFinding

CHECKS: tuple[Check, ...] = (
    variables.check,
    container.check,
    libraries.check,
    packages.check,
    threads.check,
    rendezvous.check,
    disks.check,
)
"""Every check, in the order in which findings of one severity are shown."""


def faults(here: Snapshot) -> list[Fault]:
    """What is wrong with what is there."""
    return [fault for check in CHECKS for fault in check(here)]


def as_findings(found: Iterable[Fault], known: Mapping[str, KnownFinding]) -> list[Finding]:
    """Faults with what is known of each."""
    return [
        Finding(known=known[fault.id], detail=without_secrets(fault.detail), commands=fault.commands) for fault in found
    ]
