"""Compares two images: packages and their versions, variables, sizes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from uenvtool.commands.image.show import megabytes
from uenvtool.errors import ExitCode
from uenvtool.image.contents import Contents, read
from uenvtool.result import Result, Table


def diff(before: Path, after: Path) -> Result:
    """What two images do not share. The exit code is NO if there is anything.

    Raises BadInput if a file is not an image, ToolMissing without unsquashfs.
    """
    old, new = read(before), read(after)
    packages = changes(_versions(old), _versions(new))
    variables = changes(old.variables(), new.variables())
    sizes = changes(_sizes(old), _sizes(new))
    headings = str(before), str(after)
    tables = (
        Table(headings=("package", *headings), rows=packages),
        Table(headings=("variable", *headings), rows=variables),
        Table(headings=("size", *headings), rows=sizes),
    )
    differs = bool(packages or variables)
    return Result(
        data={
            "packages": _data(packages),
            "variables": _data(variables),
            "bytes": [path.stat().st_size for path in (before, after)],
            "unpacked_bytes": [old.unpacked_bytes, new.unpacked_bytes],
        },
        text="" if differs else "the same packages and variables",
        tables=tuple(table for table in tables if table.rows),
        exit_code=ExitCode.NO if differs else ExitCode.DONE,
    )


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Name, old and new text of what is not the same on both sides; a side that has none is empty."""
    names = sorted(before.keys() | after.keys())
    found = [(name, before.get(name, ""), after.get(name, "")) for name in names]
    return [(name, old, new) for name, old, new in found if old != new]


def _versions(contents: Contents) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for package in contents.packages:
        found.setdefault(f"{package.name} ({package.kind})", []).append(package.version)
    return {name: ", ".join(versions) for name, versions in found.items()}


def _sizes(contents: Contents) -> dict[str, str]:
    return {
        "image": megabytes(contents.path.stat().st_size),
        "unpacked": megabytes(contents.unpacked_bytes),
        "names": str(len(contents.entries)),
    }


def _data(rows: list[tuple[str, str, str]]) -> dict[str, dict[str, str | None]]:
    return {name: {"before": old or None, "after": new or None} for name, old, new in rows}
