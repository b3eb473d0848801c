"""Compares packages with versions: a lock with a published table, or any two sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from uenvtool.model.published import PublishedTable, Row

Versions = Mapping[str, Sequence[str]]
"""Package to its versions; none where the version is open."""


@dataclass(frozen=True, slots=True)
class Change:
    """One package that is not the same on both sides; an empty version list with `here` False: absent."""

    package: str
    kind: str  # added, removed, changed
    before: tuple[str, ...]
    after: tuple[str, ...]


def changes(before: Versions, after: Versions) -> list[Change]:
    """What was added, removed and changed, by package."""
    found = []
    for package in sorted({*before, *after}):
        old, new = tuple(before.get(package, ())), tuple(after.get(package, ()))
        if package not in before:
            found.append(Change(package, "added", old, new))
        elif package not in after:
            found.append(Change(package, "removed", old, new))
        elif sorted(old) != sorted(new):
            found.append(Change(package, "changed", old, new))
    return found


@dataclass(frozen=True, slots=True)
class Match:
    """A published row and what the lock has for it; `ours` None where it has nothing."""

    row: Row
    ours: str | None
    reason: str

    @property
    def present(self) -> bool:
        """Whether the package is there at all."""
        return self.ours is not None

    @property
    def same(self) -> bool:
        """Whether it is there at the published version."""
        return self.ours == self.row.spack_version


def matches(published: PublishedTable, ours: Versions, reasons: Mapping[str, str]) -> list[Match]:
    """Each published row with ours: the published version where we have it, else what we have.

    A package that was published at two versions is two rows; equal rows match the same package.
    """
    found = []
    for row in published.rows:
        known = ours.get(row.package, ())
        mine = row.spack_version if row.spack_version in known else (", ".join(known) or None)
        found.append(Match(row, mine, reasons.get(row.package, "")))
    return found
