"""Packs an overlay, or any virtual environment, into an image that is a uenv of its own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput
from uenvtool.image import bytecode, metadata
from uenvtool.image.metadata import ENV, EXTRA, PACKED, ListUpdate, Uenv, UenvView
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.pseudo import is_quotable
from uenvtool.image.read import LARGEST_TEXT, refuse_foreign
from uenvtool.image.tree import Entry, Tree, walk
from uenvtool.venv import howto
from uenvtool.venv.discovery import RECORD_FOLDER
from uenvtool.venv.howto import VIEW
from uenvtool.venv.info import image_data, require_mountable
from uenvtool.venv.manifest import MANIFEST
from uenvtool.venv.overlay import CONFIG
from uenvtool.venv.record import IMAGE_NOTE, RECORD, read_record
from uenvtool.venv.request import VenvRequest, default_image

MOUNT = "/user-tools"
"""Where an overlay is mounted if the user names no other place."""
CACHES = frozenset({b"__pycache__"})
LARGEST = 4 << 20
"""Bytes; a file that names its environment is a script or a list, not a library."""
NOTES = tuple(f"{RECORD_FOLDER}/{name}".encode() for name in (IMAGE_NOTE, MANIFEST))
"""Of a loose overlay alone: the image that it was packed into, and the sums of its files."""
_SCRIPT = re.compile(
    rb"#!(/[^\n]*/)bin/python[0-9.]*\n|#!/bin/sh\n'''exec' (\"?/[^\n]*/)bin/python[0-9.]*\"? \"\$0\" \"\$@\"\n' '''\n"
)
_MAY_NAME_ITS_PLACE = re.compile(rb"bin/[^/]+|pyvenv\.cfg|.*\.dist-info/[^/]+|.*\.pth", re.DOTALL)
_RELOCATABLE = b"""#!/bin/sh\n'''exec' "$(dirname -- "$(realpath -- "$0")")"/'python' "$0" "$@"\n' '''\n"""


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
        (scratch := work / "scratch").mkdir()
        image = pack(programs, _tree(folder, target.stem, mount, scratch), work / "new", scratch, epoch)
        yield image


def _tree(folder: Path, stem: str, mount: str, scratch: Path) -> Tree:
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
    records = {
        f"{EXTRA}/{path.name}".encode(): files.read_bytes(path, LARGEST_TEXT)
        for path in record_paths(folder)
        if path.is_file() and not path.is_symlink()
    }
    record = read_record(folder)
    base = str(record.base.get("name") or "") if record else ""
    return {
        **records,
        ENV.encode(): metadata.env_json(overlay_uenv(name, mount, base=base)).encode(),
        PACKED.encode(): metadata.packed_json(mount, bytecode="unchecked-hash").encode(),
    }


def record_paths(folder: Path) -> list[Path]:
    """Return where an overlay says how it was made and what is in it, as its image does."""
    return [folder / RECORD_FOLDER / name for name in (RECORD, "pylock.toml")]


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


@contextlib.contextmanager
def packed_beside(
    folder: Path, request: VenvRequest, base: Mapping[str, Any], notes: list[str]
) -> Iterator[tuple[files.Replacement, dict[str, Any]]]:
    """Pack a loose overlay beside the image that is asked for; give what replaces the old one, and the image as data.

    base: what the overlay's record says of it. notes: takes what the packing programs cannot do here.
    Raises ToolMissing without mksquashfs, ToolFailed if packing fails or the image is not what was packed.
    """
    target = request.image or default_image(folder)
    mount = request.mount or (image_data(target)["mount"] if target.is_file() else None) or MOUNT
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
    for name in previous_names(image.stem, image.suffix):
        with contextlib.suppress(BadInput):
            refuse_foreign(image.with_name(name))
            return image.with_name(name)
    raise AssertionError("names do not end")


def _epoch() -> int | None:
    """Read SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/)."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if text and (not re.fullmatch("[0-9]{1,10}", text) or int(text) >= 1 << 32):
        hint = "seconds since 1970, less than 2^32: for example 0"
        raise BadInput(f"SOURCE_DATE_EPOCH={text} is not a time that an image can hold", hint=hint)
    return int(text) if text else None


def left_out(folder: Path) -> frozenset[bytes]:
    """List the names that an image must not hold: the metadata of an image that this was, uv's lock and cache notes.

    Raises BadInput if `meta`, where an image has its metadata, is something else.
    """
    if os.path.lexists(folder / "meta") and not (folder / PACKED).is_file():
        hint = f"an image has its metadata there: give it another name, then pack {folder.name} again"
        raise BadInput(f"{folder / 'meta'} cannot be packed", hint=hint)
    found = {b"meta", b".lock", *NOTES}
    for path in folder.glob("lib*/python*/site-packages/*.dist-info/uv_cache.json"):
        found.add(os.fsencode(path.relative_to(folder)))
    return frozenset(found)


def rewritten(folder: Path, entries: Mapping[bytes, Entry], mount: str) -> dict[bytes, bytes]:
    """Rewrite the files that name the folder, as they have to be in an image that is mounted at `mount`.

    Commands find the Python beside them; everything else gets the mount point. A relocatable overlay
    needs none of this.
    """
    built_at, quoted = os.fsencode(folder), os.fsencode(shlex.quote(str(folder)))
    found = {}
    for name, text in _texts(folder, entries, _MAY_NAME_ITS_PLACE.fullmatch):
        if built_at in text or quoted in text:
            found[name] = _moved(text, name, built_at, os.fsencode(mount))
    records = {}
    for name, text in _texts(folder, entries, lambda name: name.endswith(b".dist-info/RECORD")):
        old, site = found.get(name) or text, os.path.dirname(os.path.dirname(name))
        lines = [line for line in old.splitlines(keepends=True) if b"/uv_cache.json," not in line]
        new = b"".join(_line(line, site, found) for line in lines)
        if new != old:
            records[name] = new
    return {**found, **records}


def _texts(
    folder: Path, entries: Mapping[bytes, Entry], is_wanted: Callable[[bytes], object]
) -> Iterator[tuple[bytes, bytes]]:
    for name, entry in entries.items():
        if entry.kind == "f" and entry.size <= LARGEST and is_wanted(name):
            yield name, (folder / os.fsdecode(name)).read_bytes()


def _line(line: bytes, site: bytes, changed: Mapping[bytes, bytes]) -> bytes:
    """Return a line of a RECORD (packaging.python.org) with the sum of a rewritten file."""
    name, comma, _ = line.partition(b",")
    text = changed.get(os.path.normpath(os.path.join(site, name))) if comma else None
    if text is None:
        return line
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=")
    return b"%s,sha256=%s,%d\n" % (name, digest, len(text))


def _moved(text: bytes, name: bytes, built_at: bytes, mount: bytes) -> bytes:
    if name.startswith(b"bin/"):
        script = _SCRIPT.match(text)
        if script and built_at in script[0]:
            text = _RELOCATABLE + text[script.end() :]
        for quoted in (
            os.fsencode(shlex.quote(os.fsdecode(built_at))),
            b"'%s'" % built_at,
        ):  # some quote only if they must
            text = text.replace(quoted, os.fsencode(shlex.quote(os.fsdecode(mount))))
    return re.sub(re.escape(built_at) + rb"(?![\w.-])", lambda _match: mount, text)
