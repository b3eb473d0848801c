"""A published table: the packages, with versions, that a uenv is known to contain."""

from __future__ import annotations

from dataclasses import dataclass

from uenvtool.core.errors import Position
from uenvtool.knowledge.condition import ALWAYS, Condition
from uenvtool.knowledge.extend import load_extended
from uenvtool.knowledge.kinds import PUBLISHED
from uenvtool.knowledge.locate import locate
from uenvtool.knowledge.reader import TreeReader, text
from uenvtool.knowledge.source import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a published table.

    name, version: as published. package, spack_version: the Spack package and version behind it.
    kind: `python` for a Python distribution, else `other`. when: the systems that the row is of.
    """

    name: str
    version: str
    package: str
    spack_version: str
    kind: str
    position: Position
    when: Condition = ALWAYS


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table; `source` says where it was published."""

    source: str
    rows: tuple[Row, ...]

    def by_package(self) -> dict[str, list[Row]]:
        """Spack package to its rows, those of a version that it already has left out."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            known = found.setdefault(row.package, [])
            if row.spack_version not in [other.spack_version for other in known]:
                known.append(row)
        return found

    def versions_of(self) -> dict[str, list[str]]:
        """Spack package to its published Spack versions, in the table's order."""
        return {package: [row.spack_version for row in rows] for package, rows in self.by_package().items()}


def load_published(name: str) -> PublishedTable:
    """The published table of a recipe's name, or in the file of that path. Raises BadInput if it is none."""
    extended = load_extended(locate(PUBLISHED, name), PUBLISHED)
    tree = extended.tree
    reader = _Reader(extended)
    rows = [
        reader.row(node, kind)
        for kind in ("other", "python")
        for listed in [tree.get(kind)]
        for node in (listed.value if listed else ())
    ]
    reader.fail_if_wrong()
    return PublishedTable(text(tree, "source"), tuple(rows))


class _Reader(TreeReader):
    """Makes rows of nodes and collects what is wrong in their conditions."""

    def row(self, node: Node, kind: str) -> Row:
        name, version = text(node, "name"), text(node, "version")
        return Row(
            name=name,
            version=version,
            package=text(node, "package") or name,
            spack_version=text(node, "spack_version") or version,
            kind=kind,
            position=node.position,
            when=self.when(node),
        )
