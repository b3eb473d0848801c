"""Packs an overlay into an image that is a uenv of its own, and reads what such an image says of itself."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, Position, ToolMissing
from uenvtool.image import bytecode, metadata
from uenvtool.image.metadata import ENV, EXTRA, PACKED, ListUpdate, Uenv, UenvView
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.pseudo import is_quotable
from uenvtool.image.read import LARGEST_TEXT, read_texts, refuse_foreign, superblock
from uenvtool.image.tree import Tree, walk
from uenvtool.venv import howto
from uenvtool.venv.howto import VIEW
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import RECORD, RECORD_IN_IMAGE, OverlayRecord, noted_image, parse_record, read_record
from uenvtool.venv.relocate import left_out, rewritten
from uenvtool.venv.request import VenvRequest, default_image
from uenvtool.venv.requirements import UserRequirement
from uenvtool.venv.where import RECORD_FOLDER

MOUNT = "/user-tools"
"""Where an overlay is mounted if the user names no other place."""
RECORDS = (RECORD, "pylock.toml")
CACHES = frozenset({b"__pycache__"})
SCRATCH_BYTES = 2 << 30
"""The bytecode of a large environment twice over, and more."""


@contextlib.contextmanager
def packed(
    folder: Path, target: Path, *, mount: str = MOUNT, epoch: int | None = None, on_note: Callable[[str], None]
) -> Iterator[Packed]:
    """Pack an overlay, or any virtual environment, into one image beside `target`; `files.publish` gives it its name.

    The image holds the folder at its root, bytecode that is never compared with its source,
    meta/env.json and meta/extra/. It was read back and compared with the folder. If it is not
    published it is removed at the end, and the old image is untouched. The same content gives the
    same bytes; epoch: the time of everything in it, in seconds since 1970.

    Raises BadInput if the folder is no environment or the target is not an image of this tool's,
    ToolMissing without squashfs-tools, ToolFailed if the base's Python, the disk or a program fails.
    """
    folder, target = folder.absolute(), target.absolute()
    if not (folder / CONFIG).is_file():
        raise BadInput(f"{folder} is not a virtual environment", hint="make one with `uenvtool venv`")
    require_mountable(mount)
    if folder == target or folder in target.parents:
        raise BadInput(f"{target} lies in what is packed", hint="put the image beside the environment")
    programs = find_programs()
    if programs.compression != "zstd":
        on_note("this mksquashfs has no zstd: packing with gzip, which is larger and slower to read")
    with files.workplace(target) as work:
        refuse_foreign(target)
        with files.working_folder(SCRATCH_BYTES) as scratch:
            image = pack(programs, _tree(folder, target.stem, mount, scratch), work / "new", scratch, epoch)
        yield image


def require_mountable(mount: str) -> None:
    """Raise BadInput if no image can be mounted there: runtimes give blanks and : , $ { } a meaning of their own."""
    if not re.fullmatch(r"(/[\w.+@%-]+)+", mount) or os.path.normpath(mount) != mount:
        hint = "--mount takes an absolute path of plain names such as /user-tools, which exists where it is used"
        raise BadInput(f"{mount!r} cannot be a mount point", hint=hint)


def _tree(folder: Path, stem: str, mount: str, scratch: Path) -> Tree:
    """Gather what the image will hold; the bytecode lies in `scratch`."""
    omitted = left_out(folder)
    entries = walk(folder, left_out=omitted, skipped=CACHES)
    modules = {
        name: entry.size
        for name, entry in entries.items()
        if entry.kind == "f" and name.endswith(b".py") and is_quotable(name) and not name.startswith(b"bin/")
    }
    bundles = bytecode.gather([folder / "bin" / "python"], folder, modules, scratch)
    added = {**rewritten(folder, entries, mount), **_meta(folder, metadata.uenv_name(stem, VIEW), mount)}
    return Tree(folder=folder, known=entries, added=added, bundles=bundles, left_out=omitted, skipped=CACHES)


def _meta(folder: Path, name: str, mount: str) -> dict[bytes, bytes]:
    paths = [folder / RECORD_FOLDER / name for name in RECORDS]
    records = {
        f"{EXTRA}/{path.name}".encode(): files.read_bytes(path, LARGEST_TEXT)
        for path in paths
        if path.is_file() and not path.is_symlink()
    }
    record = read_record(folder)
    base = str(record.base.get("name") or "") if record else ""
    return {
        **records,
        ENV.encode(): metadata.env_json(overlay_uenv(name, mount, base=base)).encode(),
        PACKED.encode(): metadata.packed_json(mount, bytecode="unchecked-hash").encode(),
    }


def overlay_uenv(name: str, mount: str, *, base: str = "") -> Uenv:
    """Describe the uenv that an overlay at the image's root is.

    Its one view puts its commands first on PATH, says where it is (VIRTUAL_ENV), and takes PYTHONPATH
    away, which would come before everything. base: the name of what it lies on.
    """
    on_base = f" on {base}" if base else ""
    view = UenvView(
        description=f"the Python environment{on_base}",
        root=mount,
        activate=f"{mount}/bin/activate",
        lists={
            "PATH": [ListUpdate(op="prepend", paths=[f"{mount}/bin"])],
            "PYTHONPATH": [ListUpdate(op="unset")],
        },
        scalars={"VIRTUAL_ENV": mount, "VIRTUAL_ENV_PROMPT": name},
    )
    description = f"a Python overlay{on_base}, made by uenvtool"
    return Uenv(name=name, description=description, mount=mount, views={VIEW: view}, default_view=VIEW)


def info(path: Path) -> dict[str, Any]:
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
    """Raise BadInput, with its place, for a mount point of an image where nothing can be mounted."""
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


@contextlib.contextmanager
def packed_beside(
    folder: Path, request: VenvRequest, base: Mapping[str, Any], notes: list[str]
) -> Iterator[tuple[files.Replacement, dict[str, Any]]]:
    """Pack a loose overlay beside the image that is asked for; give what replaces the old one, and the image as data.

    base: what the overlay's record says of it. notes: takes what the packing programs cannot do here.
    Raises ToolMissing without mksquashfs, ToolFailed if packing fails or the image is not what was packed.
    """
    target = request.image or default_image(folder)
    mount = request.mount or (info(target)["mount"] if target.is_file() else None) or MOUNT
    kept = _previous_name(target) if request.update and target.is_file() else None
    with packed(folder, target, mount=mount, epoch=_epoch(), on_note=notes.append) as new:
        lines = howto.lines(target, metadata.uenv_name(target.stem, VIEW), mount, base)
        yield (
            files.Replacement(new=new.path, target=target.absolute(), previous=kept),
            {
                "path": str(target.absolute()),
                "bytes": new.bytes,
                "sha256": new.sha256,
                "compression": new.compression,
                "mount": mount,
                "previous": str(kept) if kept else None,
                "use": [asdict(line) for line in lines],
            },
        )


def previous_names(name: str, suffix: str = "") -> Iterator[str]:
    """Give the names that something old may keep, best first."""
    yield f"{name}.previous{suffix}"
    yield from (f"{name}.previous.{number}{suffix}" for number in itertools.count(2))


def _previous_name(image: Path) -> Path:
    """Return the name that the old image keeps: the first one that is free, or is that of an image of this tool's."""
    for name in previous_names(image.stem, image.suffix):
        with contextlib.suppress(BadInput):
            refuse_foreign(image.with_name(name))
            return image.with_name(name)
    raise AssertionError("names do not end")


def editable_notes(requirements: Iterable[UserRequirement]) -> list[str]:
    """Say what to know of the editable projects in an image: they are paths."""
    places = filter(None, (requirement.editable for requirement in requirements))
    return [f"{place} is editable: that folder has to be there wherever the image is used" for place in places]


def shown_path(path: Path) -> str:
    """Return a path as a user here writes it."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)


def _epoch() -> int | None:
    """Read SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/)."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and (not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 1 << 32):
        hint = "seconds since 1970, less than 2^32: for example 0"
        raise BadInput(f"SOURCE_DATE_EPOCH={text} is not a time that an image can hold", hint=hint)
    return int(text) if text else None
