"""`uenvtool image show`: prints the views, variables and packages of images, with sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core.result import Result, Table
from uenvtool.core.words import size_text
from uenvtool.image.contents import Contents, read


def show(images: Sequence[Path]) -> Result:
    """Return the contents of each image.

    Raises BadInput if a file is not an image, ToolMissing if unsquashfs is not installed.
    """
    all_contents = [read(image) for image in images]
    all_data = [_data(contents) for contents in all_contents]
    pairs = zip(all_contents, all_data, strict=True)
    return Result(data=all_data, tables=tuple(table for contents, data in pairs for table in _tables(contents, data)))


def _data(contents: Contents) -> dict[str, Any]:
    uenv = contents.uenv
    return {
        "path": str(contents.path),
        "bytes": contents.path.stat().st_size,
        "unpacked_bytes": contents.unpacked_bytes,
        "names": len(contents.entries),
        "compression": contents.head.compression,
        "block_bytes": contents.head.block,
        "name": uenv.name if uenv else None,
        "description": uenv.description if uenv else None,
        "mount": uenv.mount if uenv else None,
        "default_view": uenv.default_view if uenv else None,
        "views": {name: view.data() for name, view in uenv.views.items()} if uenv else {},
        "packages": [package.data() for package in contents.packages],
    }


def _tables(contents: Contents, data: Mapping[str, Any]) -> list[Table]:
    facts = [
        ("name", data["name"] or "none (no meta/env.json)"),
        ("mount", data["mount"] or ""),
        ("default view", data["default_view"] or ""),
        (
            "size",
            f"{size_text(data['bytes'])}, unpacked {size_text(data['unpacked_bytes'])} in {data['names']} entries",
        ),
        ("compression", f"{data['compression']}, {data['block_bytes'] >> 10} KiB blocks"),
    ]
    views = [(name, view.root, view.description) for name, view in contents.views.items()]
    by_size = sorted(contents.packages, key=lambda package: (-package.bytes, package))
    packages = [(package.name, package.version, package.kind, size_text(package.bytes)) for package in by_size]
    tables = [
        Table(headings=("image", str(contents.path)), rows=[fact for fact in facts if fact[1]]),
        Table(headings=("view", "directory", "description"), rows=views),
        Table(headings=("package", "version", "kind", "size"), rows=packages),
        Table(headings=("view", "variable", "change"), rows=[*contents.variables()]),
    ]
    return [table for table in tables if table.rows]
