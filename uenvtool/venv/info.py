"""Shows what an overlay is made of, loose or packed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.errors import BadInput
from uenvtool.core.result import Result, Table
from uenvtool.core.words import size_text
from uenvtool.venv import howto
from uenvtool.venv import image as images
from uenvtool.venv.image import editable_notes, image_of, is_older, overlay_of, repack_command, shown_path
from uenvtool.venv.outcome import HEADINGS, table_rows
from uenvtool.venv.record import read_record, recorded_requirement


def info(path: Path) -> Result:
    """Show an overlay's base, packages, size and settings, from its folder or its image.

    Raises BadInput if it is not an overlay, ToolMissing if an image cannot be read here.
    """
    data = described(path)
    rows = table_rows(data["packages"])
    return Result(
        data=data,
        text="\n".join(f"{name}: {value}" for name, value in _facts(data) if value not in ("", None)),
        notes=tuple(data.get("notes", ())),
        warnings=tuple(_warnings(path.absolute(), data)),
        next=tuple(howto.shown(data.get("use", ()))),
        tables=(Table(headings=HEADINGS, rows=rows),) if rows else (),
    )


def described(path: Path) -> dict[str, Any]:
    """Return an overlay as data."""
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
        **record.data(),
        "image": {"path": str(image), "older": is_older(image, path)} if image else None,
        "files": len(sizes),
        "bytes": sum(size.st_size for size in sizes),
    }


def _of_image(path: Path) -> dict[str, Any]:
    data, overlay = images.info(path), overlay_of(path.absolute())
    requests = data.get("requests", ())
    wanted = [recorded_requirement(request["text"], request["origin"], str(path)) for request in requests]
    base = data["base"] or howto.surroundings(os.environ)
    lines = howto.lines(path, data["name"] or "", data["mount"] or "", base)
    return {
        **data,
        "notes": editable_notes(wanted),
        "overlay": {"path": str(overlay), "newer": is_older(path, overlay)} if overlay else None,
        "use": [asdict(line) for line in lines],
    }


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    base = data["base"]
    load = quoting.sh_again(str(base.get("load") or ""))
    load = f"; {load}" if load else ""
    missing = "" if data.get("base_is_here", True) else f" (not here now{load})"
    yield "overlay", data["path"]
    yield "base", f"{base.get('name') or base.get('python') or 'none'}, Python {base.get('version', '?')}{missing}"
    yield "base folders", os.pathsep.join(base.get("folders", ()))
    yield "base fingerprint", base.get("fingerprint")
    yield "asked for", ", ".join(request["text"] for request in data.get("requests", ()))
    yield "overrides", ", ".join(data.get("overrides", ()))
    yield "built on the base", ", ".join(data.get("built_on_base", ()))
    for name in ("mount", "compression"):
        yield name, data.get(name)
    yield "size", size_text(data["bytes"]) + (f" in {data['files']} files" if "files" in data else "")


def _warnings(path: Path, data: Mapping[str, Any]) -> Iterator[str]:
    image, overlay = data.get("image"), data.get("overlay")
    if image and image["older"]:
        command = repack_command(path, Path(image["path"]))
        yield f"{shown_path(Path(image['path']))} is older than this: pack it again with `{command}`"
    if overlay and overlay["newer"]:
        command = repack_command(Path(overlay["path"]), path)
        yield f"this is older than {shown_path(Path(overlay['path']))}: pack it again with `{command}`"
