"""Compares two images: packages and their versions, variables, sizes, and every file if that is wanted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from uenvtool.core.errors import ExitCode
from uenvtool.core.result import Result, Table
from uenvtool.core.words import grouped, size_text
from uenvtool.image.contents import Contents, read
from uenvtool.image.listing import FOLDER, SYMLINK
from uenvtool.image.stream import file_sums


def diff(before: Path, after: Path, *, files: bool = False) -> Result:
    """Return what two images do not share. The exit code is NO if there is anything.

    files: compare the kind and content of every name too, which reads both images to their ends. Raises
    BadInput if a file is not an image or damaged, ToolMissing without unsquashfs.
    """
    old, new = read(before), read(after)
    packages = changes(_versions(old), _versions(new))
    variables = changes(old.variables(), new.variables())
    sizes = changes(_sizes(old), _sizes(new))
    names = changes(_names(old), _names(new)) if files else []
    headings = str(before), str(after)
    tables = (
        Table(headings=("package", *headings), rows=packages),
        Table(headings=("variable", *headings), rows=variables),
        Table(headings=("size", *headings), rows=sizes),
        Table(headings=("file", *headings), rows=names),
    )
    differs = bool(packages or variables or names)
    return Result(
        data={
            "packages": _data(packages),
            "variables": _data(variables),
            "files": _data(names),
            "bytes": [path.stat().st_size for path in (before, after)],
            "unpacked_bytes": [old.unpacked_bytes, new.unpacked_bytes],
        },
        text="" if differs else f"the same packages{', variables and files' if files else ' and variables'}",
        tables=tuple(table for table in tables if table.rows),
        exit_code=ExitCode.NO if differs else ExitCode.DONE,
    )


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return name, old and new text of what is not the same on both sides; a side that has none is empty."""
    names = sorted(before.keys() | after.keys())
    found = [(name, before.get(name, ""), after.get(name, "")) for name in names]
    return [(name, old, new) for name, old, new in found if old != new]


def _versions(contents: Contents) -> dict[str, str]:
    found = grouped((f"{package.name} ({package.kind})", package.version) for package in contents.packages)
    return {name: ", ".join(versions) for name, versions in found.items()}


def _names(contents: Contents) -> dict[str, str]:
    """Return each name with what it is: a file's size and the start of its sum, a symlink's target."""
    sums = file_sums(contents.path, contents.entries)
    found = {}
    for name, entry in contents.by_name.items():
        if entry.kind == SYMLINK:
            found[name] = f"-> {os.fsdecode(entry.target)}"
        else:
            other = "folder" if entry.kind == FOLDER else "device"
            found[name] = f"{entry.size} bytes, sha256 {sums[name][:12]}" if name in sums else other
    return found


def _sizes(contents: Contents) -> dict[str, str]:
    return {
        "image": size_text(contents.path.stat().st_size),
        "unpacked": size_text(contents.unpacked_bytes),
        "names": str(len(contents.entries)),
    }


def _data(rows: list[tuple[str, str, str]]) -> dict[str, dict[str, str | None]]:
    return {name: {"before": old or None, "after": new or None} for name, old, new in rows}
