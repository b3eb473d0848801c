"""Shows what an overlay is made of, loose or packed."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uenvtool.core import quoting
from uenvtool.core.errors import BadInput, Position, ToolMissing
from uenvtool.core.result import Result, Table
from uenvtool.core.words import size_text
from uenvtool.image.metadata import ENV, PACKED
from uenvtool.image.read import read_texts, superblock
from uenvtool.venv import howto
from uenvtool.venv.outcome import HEADINGS, table_rows
from uenvtool.venv.record import (
    RECORD_IN_IMAGE,
    OverlayRecord,
    noted_image,
    parse_record,
    read_record,
    recorded_requirement,
)
from uenvtool.venv.request import default_image
from uenvtool.venv.requirements import UserRequirement


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
    data, overlay = image_data(path), overlay_of(path.absolute())
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


def image_data(path: Path) -> dict[str, Any]:
    """Read what a packed overlay says of itself. Raises BadInput if the image is not one."""
    texts = read_texts(path, [ENV, PACKED, RECORD_IN_IMAGE])
    if PACKED not in texts:
        raise BadInput(f"{path} is not an image that uenvtool packed", hint="`unsquashfs -l` shows what is in it")
    head = superblock(path)
    env, settings = _json(texts.get(ENV, "{}"), path), _json(texts[PACKED], path)
    mount = str(env.get("mount", ""))
    if mount:
        _require_usable(mount, Position(f"{path}:{ENV}"))
    record = parse_record(texts[RECORD_IN_IMAGE], f"{path}:{RECORD_IN_IMAGE}") if RECORD_IN_IMAGE in texts else None
    base = record.base if record else {}
    for name in ("image", "view"):
        _require_line(str(base.get(name) or ""), f"base.{name}", Position(f"{path}:{RECORD_IN_IMAGE}"))
    _require_line(str(env.get("name", "")), "name", Position(f"{path}:{ENV}"))
    return {
        "path": str(path),
        "bytes": path.stat().st_size,
        **(record.data() if record else {"base": {}, "packages": []}),
        "settings": {"bytecode": settings.get("bytecode")},
        "name": str(env.get("name", "")) or None,
        "mount": mount or None,
        "compression": f"{head.compression}, {head.block >> 10} KiB blocks" if head else None,
    }


def _require_usable(mount: str, position: Position) -> None:
    try:
        require_mountable(mount)
    except BadInput as error:
        raise BadInput(error.problems[0].message, position, _FOREIGN) from error


def _require_line(text: str, what: str, position: Position) -> None:
    if not text.isprintable():
        raise BadInput(f"{what} is {text!r}, which no command can name", position, _FOREIGN)


_FOREIGN = "uenvtool writes no such image: ask who made it, and do not load it"


def _json(text: str, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: image metadata is unreadable: {error}", hint="it is damaged: make it again") from error
    return data if isinstance(data, dict) else {}


def read_image_record(image: Path) -> OverlayRecord | None:
    """Read the record in a packed overlay; None if it has none. Raises BadInput if the file is not an image."""
    text = read_texts(image, [RECORD_IN_IMAGE]).get(RECORD_IN_IMAGE)
    return None if text is None else parse_record(text, f"{image}:{RECORD_IN_IMAGE}")


def image_of(overlay: Path) -> Path | None:
    """Find the image that a loose overlay was packed into: as noted, else beside it and named after it."""
    image = noted_image(overlay) or default_image(overlay)
    return image if image.is_file() else None


def overlay_of(image: Path) -> Path | None:
    """Find the loose overlay that an image was packed from, if it lies beside it."""
    overlays = (image.parent / name for name in (image.stem, f".{image.stem}"))
    return next((path for path in overlays if read_record(path) is not None and image_of(path) == image), None)


def is_older(image: Path, overlay: Path) -> bool:
    """Tell if an image holds another state of its overlay; of what cannot be read here nothing is said."""
    try:
        record = read_image_record(image)
    except (BadInput, ToolMissing):
        return False
    return record is not None and record != read_record(overlay)


def repack_command(overlay: Path, image: Path) -> str:
    """Return the command that packs an overlay into its image again."""
    words = ["uenvtool", "venv", shown_path(overlay), "--squash"]
    return shlex.join(words if image == default_image(overlay) else [*words, shown_path(image)])


def require_mountable(mount: str) -> None:
    """Raise BadInput if no image can be mounted there: runtimes give blanks and : , $ { } a meaning of their own."""
    if not re.fullmatch(r"(/[\w.+@%-]+)+", mount) or os.path.normpath(mount) != mount:
        hint = "--mount takes an absolute path of plain names such as /user-tools, which exists where it is used"
        raise BadInput(f"{mount!r} cannot be a mount point", hint=hint)


def editable_notes(requirements: Iterable[UserRequirement]) -> list[str]:
    """Say what to know of the editable projects in an image: they are paths."""
    places = filter(None, (requirement.editable for requirement in requirements))
    return [f"{place} is editable: that folder has to be there wherever the image is used" for place in places]


def shown_path(path: Path) -> str:
    """Return a path as a user here writes it."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
