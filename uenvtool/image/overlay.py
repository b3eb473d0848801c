"""Packs a finished overlay into an image that is a uenv of its own, and tells what an overlay is."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uenvtool import files
from uenvtool.errors import BadInput, ToolFailed
from uenvtool.image import bytecode, metadata
from uenvtool.image.pack import EPOCH, room, usable, write_image
from uenvtool.image.programs import Programs, find_programs
from uenvtool.image.relocate import left_out, rewritten
from uenvtool.image.squashfs import PACKED, superblock, told
from uenvtool.image.tree import Tree, walk
from uenvtool.image.verify import verify

ENV = "meta/env.json"
EXTRA = "meta/extra"
RECORDS = ("uenvtool.json", "pylock.toml")
RECORD_FOLDER = ".uenvtool"
FORMAT = 1
SCRATCH_BYTES = 2 << 30
"""The bytecode of a large environment twice over, with room to spare."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An image that was written and checked.

    bytes: its size; seconds: what all of it took; writing: what mksquashfs took of them.
    """

    path: Path
    bytes: int
    sha256: str
    compression: str
    seconds: float
    writing: float


@dataclass(frozen=True, slots=True)
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
            "packages": [dict(each) for each in self.packages],
            "settings": dict(self.settings),
            "name": self.name or None,
            "mount": self.mount or None,
            "compression": self.compression or None,
        }


def pack_overlay(
    folder: Path,
    target: Path,
    *,
    mount: str = metadata.MOUNT,
    epoch: int | None = None,
    on_note: Callable[[str], None],
) -> Packed:
    """Pack an overlay, or any virtual environment, into one image.

    The image holds the folder at its root, bytecode that is never compared with its source,
    meta/env.json and meta/extra/. It is written beside the target, read back, compared with the
    folder, and renamed: until then the old image is untouched. The same content gives the same
    bytes; epoch: the time of everything in it, in seconds since 1970.

    Raises BadInput where the folder is no environment or the target is not an image of this tool's,
    ToolMissing without squashfs-tools, ToolFailed where the base's Python, the disk or a program fails.
    """
    started = time.monotonic()
    folder, target = Path(os.path.abspath(folder)), Path(os.path.abspath(target))
    _check_arguments(folder, target, mount)
    programs = find_programs()
    _say_what_is_missing(programs, on_note)
    with files.workplace(target) as work, files.working_folder(SCRATCH_BYTES) as scratch:
        refuse_foreign(target)
        tree = overlay_tree(folder, target.stem, mount, scratch)
        new = work / "new"
        begun = time.monotonic()
        write_image(programs, tree, new, scratch, EPOCH if epoch is None else epoch)
        writing = time.monotonic() - begun
        with ThreadPoolExecutor(2) as beside:
            on_disk, digest = beside.submit(files.sync, new), beside.submit(_sha256, new)
            verify(programs, new, tree, scratch, EPOCH if epoch is None else epoch)
            on_disk.result()
            sha256 = digest.result()
        size = new.stat().st_size
        files.replace(new, target)
    return Packed(target, size, sha256, programs.compression, time.monotonic() - started, writing)


def overlay_tree(folder: Path, stem: str, mount: str, scratch: Path) -> Tree:
    """What the image will hold; the bytecode lies in `scratch`."""
    without = left_out(folder)
    entries = walk(folder, without)
    files_of_python = [name for name, each in entries.items() if each.kind == "f" and name.endswith(b".py")]
    modules = {name: entries[name].size for name in usable(files_of_python) if not name.startswith(b"bin/")}
    parts = bytecode.gather(folder / "bin" / "python", folder, modules, scratch, room(modules))
    new = {**rewritten(folder, entries, mount), **_meta(folder, metadata.uenv_name(stem), mount)}
    return Tree(folder, entries, new, parts, without)


def refuse_foreign(target: Path) -> None:
    """Raise BadInput where the target is something that this tool did not pack."""
    if not os.path.lexists(target):
        return
    hint = "choose another name, or remove it yourself"
    if target.is_symlink() or not target.is_file():
        raise BadInput(f"{target} is not a file", hint=hint)
    if superblock(target) is None or PACKED not in told(target, [PACKED]):
        raise BadInput(f"{target} is not an image that uenvtool packed", hint=hint)


def info(path: Path) -> OverlayInfo:
    """What a packed overlay says of itself. Raises BadInput where it is none."""
    names = [ENV, PACKED, *(f"{EXTRA}/{name}" for name in RECORDS)]
    texts = told(path, names)
    if PACKED not in texts:
        raise BadInput(f"{path} is not an image that uenvtool packed", hint="unsquashfs -l shows what is in it")
    head = superblock(path)
    env, settings = _json(texts.get(ENV, "{}"), path), _json(texts[PACKED], path)
    record = _json(texts.get(f"{EXTRA}/{RECORDS[0]}", "{}"), path)
    return OverlayInfo(
        path,
        path.stat().st_size,
        _mapping(record.get("base")),
        _rows(record.get("packages")),
        {**_mapping(record.get("settings")), "bytecode": settings.get("bytecode")},
        str(env.get("name", "")),
        str(env.get("mount", "")),
        f"{head.compression}, {head.block >> 10} KiB blocks" if head else "",
    )


def _meta(folder: Path, name: str, mount: str) -> dict[bytes, bytes]:
    """The files that make the image a uenv, and those that tell of it."""
    texts = {}
    for record in RECORDS:
        path = folder / RECORD_FOLDER / record
        if path.is_file() and not path.is_symlink():
            texts[f"{EXTRA}/{record}"] = path.read_bytes()
    base = (
        _json(texts[f"{EXTRA}/{RECORDS[0]}"].decode(), folder).get("base") if f"{EXTRA}/{RECORDS[0]}" in texts else None
    )
    texts[ENV] = metadata.overlay_env(name, mount, base=str(_mapping(base).get("name") or "")).encode()
    settings = {"format": FORMAT, "generator": "uenvtool", "mount": mount, "bytecode": "unchecked-hash"}
    texts[PACKED] = (json.dumps(settings, indent=2) + "\n").encode()
    return {name.encode(): text for name, text in texts.items()}


def _check_arguments(folder: Path, target: Path, mount: str) -> None:
    if not (folder / "pyvenv.cfg").is_file():
        raise BadInput(f"{folder} is not a virtual environment", hint="make one with uenvtool venv")
    if not mount.startswith("/") or os.path.normpath(mount) != mount or mount == "/" or set(mount) & set(":,\n\0${}"):
        hint = "an absolute path without : , $ { } such as /user-tools; it must exist where the image is mounted"
        raise BadInput(f"{mount!r} cannot be a mount point", hint=hint)
    if folder == target or folder in target.parents:
        raise BadInput(f"{target} lies in what is packed", hint="put the image beside the environment")


def _say_what_is_missing(programs: Programs, on_note: Callable[[str], None]) -> None:
    if programs.compression != "zstd":
        on_note("this mksquashfs has no zstd: packing with gzip, which is larger and slower to read")
    if not programs.one_time:
        on_note("this mksquashfs cannot set times: the image will differ from run to run")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise ToolFailed(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()


def _json(text: str, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{path}: what it says of itself cannot be read: {error}") from error
    return _mapping(data)


def _mapping(data: Any) -> dict[str, Any]:
    return data if isinstance(data, dict) else {}


def _rows(data: Any) -> tuple[dict[str, Any], ...]:
    return tuple(each for each in data if isinstance(each, dict)) if isinstance(data, list) else ()
