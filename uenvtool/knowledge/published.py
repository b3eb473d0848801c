"""A published table: the packages of a published uenv with their versions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from uenvtool.core.errors import Position
from uenvtool.core.words import grouped
from uenvtool.knowledge.bind import Binder, children
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.facts import SYSTEM_FACTS
from uenvtool.knowledge.kinds import PUBLISHED
from uenvtool.knowledge.locate import locate


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a published table.

    kind: `python` for a Python distribution, or else `other`. reason: Why the Spack version differs from the published
    one.
    """

    name: str
    version: str
    package: str = ""
    spack_version: str = ""
    kind: str
    position: Position
    when: Condition = ALWAYS
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "package", self.package or self.name)
        object.__setattr__(self, "spack_version", self.spack_version or self.version)


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table. source: Where the table was published."""

    unread: ClassVar[tuple[str, ...]] = ("other", "python")
    source: str
    rows: tuple[Row, ...]

    def by_package(self) -> dict[str, list[Row]]:
        """Return the rows of each Spack package, with one row per version."""
        first = {(row.package, row.spack_version): row for row in reversed(self.rows)}
        return grouped((row.package, row) for row in self.rows if first[row.package, row.spack_version] is row)

    def versions_of(self) -> dict[str, list[str]]:
        """Return the published Spack versions of each Spack package, in the order of the table."""
        return {package: [row.spack_version for row in rows] for package, rows in self.by_package().items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The reason why a package does not have its published version. prefer: The version to use instead, if any."""

    shorthand: ClassVar[str] = "reason"
    reason: str
    prefer: str = ""
    position: Position


@dataclass(frozen=True, kw_only=True, slots=True)
class Absence:
    """The reason why environments for some systems lack some of the published packages."""

    packages: tuple[str, ...]
    reason: str
    when: Condition = ALWAYS


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """The published table that a recipe is compared with. prefer: Whether the recipe prefers its versions."""

    table: PublishedTable
    prefer: bool = False
    differences: dict[str, Difference] = field(default_factory=dict)
    absent: tuple[Absence, ...] = ()


def load_published(name: str) -> PublishedTable:
    """Return the published table of a recipe, or of the file at a path. Raises BadInput with all problems."""
    binder = Binder.of(locate(PUBLISHED, name), PUBLISHED, facts=SYSTEM_FACTS)
    rows = tuple(
        binder.fill(Row, node, kind=kind) for kind in ("other", "python") for _, node in children(binder.tree, kind)
    )
    table = binder.whole(PublishedTable, rows=rows)
    binder.finish()
    return table
