"""Compares packages with versions: a lock with a published table, or any two sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uenvtool.knowledge.published import PublishedTable, Row

Versions = Mapping[str, Sequence[str]]
"""Package to its versions; none if the version is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One package that differs. kind: added, removed or changed; the side that lacks it has no versions."""

    package: str
    kind: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def changes(before: Versions, after: Versions) -> list[Change]:
    """What was added, removed and changed, by package."""
    found = []
    for package in sorted({*before, *after}):
        old, new = tuple(before.get(package, ())), tuple(after.get(package, ()))
        kind = _kind_of_change(package, before, after)
        if kind:
            found.append(Change(package=package, kind=kind, before=old, after=new))
    return found


def _kind_of_change(package: str, before: Versions, after: Versions) -> str:
    """added, removed, changed; or "" if a package is the same on both sides."""
    if package not in before:
        return "added"
    if package not in after:
        return "removed"
    return "changed" if sorted(before[package]) != sorted(after[package]) else ""


@dataclass(frozen=True, slots=True)
class Match:
    """A published row and what the lock has for it. ours: the lock's version, or None if it lacks the package."""

    row: Row
    ours: str | None
    reason: str

    @property
    def present(self) -> bool:
        """Whether the lock has the package."""
        return self.ours is not None

    @property
    def same(self) -> bool:
        """Whether the lock has it at the published version."""
        return self.ours == self.row.spack_version


def matches(published: PublishedTable, ours: Versions, reasons: Mapping[str, str]) -> list[Match]:
    """Each published row with ours: the published version if we have it, else what we have.

    A package that was published at two versions is two rows; equal rows match the same package.
    """
    found = []
    for row in published.rows:
        known = ours.get(row.package, ())
        version = row.spack_version if row.spack_version in known else (", ".join(known) or None)
        found.append(Match(row, version, reasons.get(row.package, "")))
    return found
