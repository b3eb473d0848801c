"""Shows what images are made of: views, packages with their sizes, variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uenvtool.core.result import Result, Table
from uenvtool.core.words import size_text
from uenvtool.image.contents import Contents, read


def show(images: Sequence[Path]) -> Result:
    """Return what each image is made of. Raises BadInput if a file is not an image, ToolMissing without unsquashfs."""
    found = [read(image) for image in images]
    described = [_data(contents) for contents in found]
    return Result(
        data=described,
        tables=tuple(
            table for contents, data in zip(found, described, strict=True) for table in _tables(contents, data)
        ),
    )


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
        ("name", data["name"] or "none: it has no meta/env.json"),
        ("mount", data["mount"] or ""),
        ("default view", data["default_view"] or ""),
        ("size", f"{size_text(data['bytes'])}, unpacked {size_text(data['unpacked_bytes'])} in {data['names']} names"),
        ("compression", f"{data['compression']}, {data['block_bytes'] >> 10} KiB blocks"),
    ]
    views = [(name, view.root, view.description) for name, view in contents.views.items()]
    by_size = sorted(contents.packages, key=lambda package: (-package.bytes, package))
    packages = [(package.name, package.version, package.kind, size_text(package.bytes)) for package in by_size]
    tables = [
        Table(headings=("image", str(contents.path)), rows=[fact for fact in facts if fact[1]]),
        Table(headings=("view", "folder", "description"), rows=views),
        Table(headings=("package", "version", "kind", "size"), rows=packages),
        Table(headings=("view", "variable", "change"), rows=[*contents.variables()]),
    ]
    return [table for table in tables if table.rows]
