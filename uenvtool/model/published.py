"""A published table: the packages, with versions, that a uenv is known to contain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from uenvtool.model.locate import shown
from uenvtool.model.schema import check
from uenvtool.model.source import read


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a published table.

    name, version: as published. package, spack_version: the Spack package and version behind it.
    kind: `python` for a Python distribution, else `other`.
    """

    name: str
    version: str
    package: str
    spack_version: str
    kind: str


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published table; `source` says where it was published."""

    source: str
    rows: tuple[Row, ...]

    def versions_of(self) -> dict[str, list[str]]:
        """Spack package to its published Spack versions, in the table's order."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            known = found.setdefault(row.package, [])
            if row.spack_version not in known:
                known.append(row.spack_version)
        return found


def load_published(path: Path) -> PublishedTable:
    """The table in a YAML file. Raises BadInput where it is not of the schema `published`."""
    tree = read(path, shown(path))
    check(tree, "published")
    data = tree.plain()
    rows = [
        Row(str(row["name"]), str(row["version"]), package, str(row.get("spack_version", row["version"])), kind)
        for kind in ("other", "python")
        for row in data.get(kind, ())
        for package in [str(row.get("package", row["name"]))]
    ]
    return PublishedTable(" ".join(data["source"].split()), tuple(rows))
