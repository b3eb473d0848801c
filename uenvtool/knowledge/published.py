"""A published table: the packages, with versions, that a uenv is known to contain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from uenvtool.core.errors import Position
from uenvtool.knowledge.bind import Binder, children
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.facts import SYSTEM_FACTS
from uenvtool.knowledge.kinds import PUBLISHED
from uenvtool.knowledge.locate import locate


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a published table.

    name, version: as published. package, spack_version: the Spack package and version behind it, if they differ.
    kind: `python` for a Python distribution, else `other`. when: the systems that the row is of.
    """

    name: str
    version: str
    package: str = ""
    spack_version: str = ""
    kind: str
    position: Position
    when: Condition = ALWAYS

    def __post_init__(self) -> None:
        object.__setattr__(self, "package", self.package or self.name)
        object.__setattr__(self, "spack_version", self.spack_version or self.version)


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table; `source` says where it was published."""

    unread: ClassVar[tuple[str, ...]] = ("other", "python")
    source: str
    rows: tuple[Row, ...]

    def by_package(self) -> dict[str, list[Row]]:
        """Return each Spack package with its rows, but for those of a version that it already has."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            known = found.setdefault(row.package, [])
            if row.spack_version not in [other.spack_version for other in known]:
                known.append(row)
        return found

    def versions_of(self) -> dict[str, list[str]]:
        """Return each Spack package with its published Spack versions, in the table's order."""
        return {package: [row.spack_version for row in rows] for package, rows in self.by_package().items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Why a package is not at its published version. prefer: the version to take instead, if any."""

    shorthand: ClassVar[str] = "reason"
    reason: str
    prefer: str = ""
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Absence:
    """Why published packages are not in the environments of some systems."""

    packages: tuple[str, ...]
    reason: str
    when: Condition = ALWAYS
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The published table that a recipe is compared with. prefer: whether its versions are soft pins."""

    table: PublishedTable
    prefer: bool = False
    differences: dict[str, Difference] = field(default_factory=dict)
    absent: tuple[Absence, ...] = ()


def load_published(name: str) -> PublishedTable:
    """Return the published table of a recipe's name, or in the file of that path. Raises BadInput if it is none."""
    binder = Binder.of(locate(PUBLISHED, name), PUBLISHED, facts=SYSTEM_FACTS)
    rows = tuple(
        binder.fill(Row, node, kind=kind) for kind in ("other", "python") for _, node in children(binder.tree, kind)
    )
    table = binder.whole(PublishedTable, rows=rows)
    binder.finish()
    return table
