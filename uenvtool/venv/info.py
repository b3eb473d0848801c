"""Shows what an overlay is made of, loose or packed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result, Table
from uenvtool.venv import howto
from uenvtool.venv.image import editable_notes, image_of, is_older, overlay_of, read_image_record, repack_command
from uenvtool.venv.outcome import HEADINGS
from uenvtool.venv.record import OverlayRecord, read_record
from uenvtool.venv.report import use_lines
from uenvtool.venv.results import shown_path


def info(path: Path) -> Result:
    """An overlay's base, packages, size and settings, from its folder or its image.

    Raises BadInput if it is not an overlay, ToolMissing if an image cannot be read here.
    """
    data = described(path)
    base = data.get("base") or {}
    rows = [
        (row["name"], row["version"], row["how"], ", ".join(row["asked_by"]), row.get("note", ""))
        for row in data.get("packages", ())
    ]
    facts = [f"{name}: {value}" for name, value in _facts(data, base) if value not in ("", None)]
    return Result(
        data=data,
        text="\n".join(facts),
        notes=tuple(data.get("notes", ())),
        warnings=tuple(_warnings(path, data)),
        next=tuple(use_lines(data.get("use", ()))),
        tables=(Table(headings=HEADINGS, rows=rows),) if rows else (),
    )


def described(path: Path) -> dict[str, Any]:
    """An overlay as data."""
    if not path.exists():
        raise BadInput(f"{path}: no such file or folder", hint="name an image or an overlay's folder")
    if not path.is_dir():
        return _of_image(path)
    record = read_record(path)
    if record is None:
        raise BadInput(f"{path} is no overlay of uenvtool's", hint="`uenvtool venv PATH` makes one")
    image = image_of(path.absolute())
    sizes = [entry.lstat() for entry in path.rglob("*") if not entry.is_dir() or entry.is_symlink()]
    return {
        "path": str(path),
        **_of_record(record),
        "image": {"path": str(image), "older": is_older(image, path)} if image else None,
        "files": len(sizes),
        "bytes": sum(size.st_size for size in sizes),
    }


def _facts(data: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "overlay", data.get("path")
    yield (
        "base",
        f"{base.get('name') or base.get('python') or 'none'}, Python {base.get('version', '?')}"
        + ("" if data.get("base_is_here", True) else _missing(base)),
    )
    yield "base folders", os.pathsep.join(base.get("folders", ()))
    yield "base fingerprint", base.get("fingerprint")
    yield "asked for", ", ".join(request["text"] for request in data.get("requests", ()))
    yield "overrides", ", ".join(data.get("overrides", ()))
    yield "built on the base", ", ".join(data.get("built_on_base", ()))
    yield "precedence", data.get("precedence")
    yield "mount", data.get("mount")
    yield "compression", data.get("compression")
    yield "size", f"{data['bytes'] / 1e6:.1f} MB" + (f" in {data['files']} files" if "files" in data else "")


def _warnings(path: Path, data: Mapping[str, Any]) -> Iterator[str]:
    """What to do if an image is older than its overlay."""
    image, overlay = data.get("image"), data.get("overlay")
    if image and image["older"]:
        command = repack_command(path.absolute(), Path(image["path"]))
        yield f"{shown_path(Path(image['path']))} is older than this: pack it again with `{command}`"
    if overlay and overlay["newer"]:
        command = repack_command(Path(overlay["path"]), path.absolute())
        yield f"this is older than {shown_path(Path(overlay['path']))}: pack it again with `{command}`"


def _missing(base: Mapping[str, Any]) -> str:
    load = base.get("load")
    return f" (not here now{f'; {load}' if load else ''})"


def _of_image(path: Path) -> dict[str, Any]:
    from uenvtool.venv.packed import info as image_info

    record, data = read_image_record(path), image_info(path).data()
    overlay = overlay_of(path.absolute())
    base = data["base"] or howto.surroundings(os.environ)
    return {
        **data,
        **(_of_record(record) if record else {}),
        "notes": editable_notes(record.requirements()) if record else [],
        "overlay": {"path": str(overlay), "newer": is_older(path, overlay)} if overlay else None,
        "use": [line.data() for line in howto.lines(path, data["name"], data["mount"], base)],
    }


def _of_record(record: OverlayRecord) -> dict[str, Any]:
    return {
        "base": dict(record.base),
        "base_is_here": all(map(os.path.isdir, record.base.get("folders", ()))),
        "precedence": record.precedence,
        "requests": [dict(request) for request in record.requests],
        "overrides": list(record.overrides),
        "built_on_base": list(record.built_on_base),
        "packages": [dict(package) for package in record.packages],
    }
