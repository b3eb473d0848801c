"""Packs a finished overlay into an image that is a uenv of its own, and reads what such an image says of itself."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from uenvtool.core import files
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.image import metadata
from uenvtool.image.metadata import ENV, EXTRA, PACKED, ListUpdate, Uenv, View
from uenvtool.image.pack import Packed, pack
from uenvtool.image.programs import find_programs
from uenvtool.image.pseudo import header_bytes, is_quotable
from uenvtool.image.read import LARGEST_TEXT, read_texts, refuse_foreign, superblock, unpack
from uenvtool.image.tree import Tree, walk
from uenvtool.venv import bytecode
from uenvtool.venv.relocate import left_out, rewritten

VIEW = "venv"
MOUNT = "/user-tools"
"""Where an overlay is mounted if the user names no other place."""
RECORDS = ("uenvtool.json", "pylock.toml")
RECORD_FOLDER = ".uenvtool"
CACHES = frozenset({b"__pycache__"})
SCRATCH_BYTES = 2 << 30
"""The bytecode of a large environment twice over, and more."""
_LONGEST_TAG = "implementation-version-abi-and-more"
"""At least as long as what any Python calls its bytecode (`cpython-312`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayInfo:
    """What a packed overlay says of itself. bytes: the image's size."""

    path: Path
    bytes: int
    base: Mapping[str, Any] = field(default_factory=dict)
    packages: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    mount: str = ""
    compression: str = ""

    def data(self) -> dict[str, Any]:
        """As data for --json."""
        return {
            "path": str(self.path),
            "bytes": self.bytes,
            "base": dict(self.base),
            "packages": [dict(package) for package in self.packages],
            "settings": dict(self.settings),
            "name": self.name or None,
            "mount": self.mount or None,
            "compression": self.compression or None,
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image that is complete, beside the place where it belongs; `files.publish` gives it its name."""

    packed: Packed
    part: Path

    def replacement(self, previous: Path | None = None) -> files.Replacement:
        """What gives the image its name. previous: the name that the old image keeps, if it is kept."""
        return files.Replacement(new=self.part, target=self.packed.path, previous=previous)


@contextlib.contextmanager
def prepared(
    folder: Path,
    target: Path,
    *,
    mount: str = MOUNT,
    epoch: int | None = None,
    on_note: Callable[[str], None],
) -> Iterator[Prepared]:
    """Pack an overlay, or any virtual environment, into one image beside `target`.

    The image holds the folder at its root, bytecode that is never compared with its source,
    meta/env.json and meta/extra/. It was read back and compared with the folder. If it is not
    published it is removed at the end, and the old image is untouched. The same content gives the
    same bytes; epoch: the time of everything in it, in seconds since 1970.

    Raises BadInput if the folder is no environment or the target is not an image of this tool's,
    ToolMissing without squashfs-tools, ToolFailed if the base's Python, the disk or a program fails.
    """
    folder, target = Path(os.path.abspath(folder)), Path(os.path.abspath(target))
    _check_arguments(folder, target, mount)
    programs = find_programs()
    for sentence in programs.shortcomings():
        on_note(sentence)
    with files.workplace(target) as work:
        refuse_foreign(target)
        with files.working_folder(SCRATCH_BYTES) as scratch:
            tree = overlay_tree(folder, target.stem, mount, scratch)
            packed = pack(programs, tree, work / "new", scratch, epoch)
        yield Prepared(replace(packed, path=target), work / "new")


def overlay_tree(folder: Path, stem: str, mount: str, scratch: Path) -> Tree:
    """What the image will hold; the bytecode lies in `scratch`."""
    omitted = left_out(folder)
    entries = walk(folder, left_out=omitted, skipped=CACHES)
    modules = {
        name: entry.size
        for name, entry in entries.items()
        if entry.kind == "f" and name.endswith(b".py") and is_quotable(name) and not name.startswith(b"bin/")
    }
    start = header_bytes(bytecode.cache_name(name, _LONGEST_TAG) for name in modules)
    bundles = bytecode.gather(folder / "bin" / "python", folder, modules, scratch, start)
    added = {**rewritten(folder, entries, mount), **_meta(folder, metadata.uenv_name(stem, VIEW), mount)}
    return Tree(folder=folder, known=entries, added=added, bundles=bundles, left_out=omitted, skipped=CACHES)


def unpack_overlay(image: Path, folder: Path, python: Path | None = None) -> bool:
    """Unpack an image into a new folder, all or nothing; a packed overlay becomes a loose one.

    python: makes the bytecode if it has the overlay's version; the image's own Python is not started.
    Gives whether there is bytecode. Raises what `image.read.unpack` raises.
    """
    compiled = False

    def settle(unpacked: Path) -> None:
        nonlocal compiled
        if (unpacked / PACKED).is_file() and (unpacked / "pyvenv.cfg").is_file():
            files.remove_tree(unpacked / "meta")
            compiled = _renewed_bytecode(unpacked, python)

    unpack(image, folder, settle)
    return compiled


def _renewed_bytecode(folder: Path, python: Path | None) -> bool:
    """Make bytecode that Python compares with its source, or remove it: nobody would notice that it is old."""
    if python is not None:
        with contextlib.suppress(ToolFailed):
            if (folder / "lib" / f"python{bytecode.python_version(python)}").is_dir():
                bytecode.compile_tree(python, folder, checked=True)
                return True
    for path in [path for path in folder.rglob("__pycache__") if path.is_dir() and not path.is_symlink()]:
        files.remove_tree(path)
    return False


def overlay_uenv(name: str, mount: str, *, base: str = "") -> Uenv:
    """The uenv that an overlay at the image's root is.

    Its one view puts its commands first on PATH, says where it is (VIRTUAL_ENV), and takes PYTHONPATH
    away, which would come before everything. base: the name of what it lies on.
    """
    on_base = f" on {base}" if base else ""
    view = View(
        description=f"the Python environment{on_base}",
        root=mount,
        activate=f"{mount}/bin/activate",
        lists={
            "PATH": [ListUpdate(op="prepend", paths=[f"{mount}/bin"])],
            "PYTHONPATH": [ListUpdate(op="unset")],
        },
        scalars={"VIRTUAL_ENV": mount, "VIRTUAL_ENV_PROMPT": name},
    )
    return Uenv(
        name=name,
        description=f"a Python overlay{on_base}, made by uenvtool",
        mount=mount,
        views={VIEW: view},
        default_view=VIEW,
    )


def info(path: Path) -> OverlayInfo:
    """What a packed overlay says of itself. Raises BadInput if the image is not one."""
    names = [ENV, PACKED, *(f"{EXTRA}/{name}" for name in RECORDS)]
    texts = read_texts(path, names)
    if PACKED not in texts:
        raise BadInput(f"{path} is not an image that uenvtool packed", hint="unsquashfs -l shows what is in it")
    head = superblock(path)
    env, settings = _json(texts.get(ENV, "{}"), path), _json(texts[PACKED], path)
    record = _json(texts.get(f"{EXTRA}/{RECORDS[0]}", "{}"), path)
    return OverlayInfo(
        path=path,
        bytes=path.stat().st_size,
        base=_mapping(record.get("base")),
        packages=_rows(record.get("packages")),
        settings={**_mapping(record.get("settings")), "bytecode": settings.get("bytecode")},
        name=str(env.get("name", "")),
        mount=str(env.get("mount", "")),
        compression=f"{head.compression}, {head.block >> 10} KiB blocks" if head else "",
    )


def _meta(folder: Path, name: str, mount: str) -> dict[bytes, bytes]:
    """The files that make the image a uenv, and those that describe it."""
    records = {}
    for record in RECORDS:
        path = folder / RECORD_FOLDER / record
        if path.is_file() and not path.is_symlink():
            records[record] = files.read_bytes(path, LARGEST_TEXT)
    described = _json(records.get(RECORDS[0], b"{}"), folder)
    base = str(_mapping(described.get("base")).get("name") or "")
    return {
        **{f"{EXTRA}/{record}".encode(): content for record, content in records.items()},
        ENV.encode(): metadata.env_json(overlay_uenv(name, mount, base=base)).encode(),
        PACKED.encode(): metadata.packed_json(mount, bytecode="unchecked-hash").encode(),
    }


def _check_arguments(folder: Path, target: Path, mount: str) -> None:
    if not (folder / "pyvenv.cfg").is_file():
        raise BadInput(f"{folder} is not a virtual environment", hint="make one with uenvtool venv")
    if not mount.startswith("/") or os.path.normpath(mount) != mount or mount == "/" or set(mount) & set(":,\n\0${}"):
        hint = "an absolute path without : , $ { } such as /user-tools; it must exist where the image is mounted"
        raise BadInput(f"{mount!r} cannot be a mount point", hint=hint)
    if folder == target or folder in target.parents:
        raise BadInput(f"{target} lies in what is packed", hint="put the image beside the environment")


def _json(text: str | bytes, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{path}: its description of itself cannot be read: {error}", hint="it is damaged: make it again"
        ) from error
    return _mapping(data)


def _mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _rows(data: Any) -> tuple[dict[str, Any], ...]:
    return tuple(row for row in data if isinstance(row, dict)) if isinstance(data, list) else ()
