"""Reads the superblock of an image, and the few files that describe it."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files, processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.image import listing as listings
from uenvtool.image.listing import FILE, FOLDER, Listed, by_name, listing
from uenvtool.image.metadata import PACKED
from uenvtool.image.programs import find_program
from uenvtool.image.tree import parents

MAGIC = b"hsqs"
COMPRESSIONS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}
LARGEST_TEXT = 8 << 20
"""The maximum number of bytes of a metadata file. uenvtool writes smaller files. Larger JSON could fill the memory."""

LARGEST_TEXTS = 64 << 20
"""The maximum number of bytes of all metadata files of an image together."""
_HINT = "name a squashfs image, or copy this one again if it is incomplete"


@dataclass(frozen=True, kw_only=True, slots=True)
class Superblock:
    """The superblock of a squashfs image.

    compression: the name of the compressor. block: the block size in bytes. time: seconds since 1970.
    """

    compression: str
    block: int
    time: int


def superblock(image: Path) -> Superblock | None:
    """Return the superblock of a squashfs image, or None if the file is not one. Raises BadInput if it does not exist.

    The layout is that of squashfs 4.0 (Linux, fs/squashfs/squashfs_fs.h).
    """
    try:
        with files.opened(image) as stream:
            head = stream.read(96)
            length = os.fstat(stream.fileno()).st_size
    except FileNotFoundError:
        raise BadInput(f"file not found: '{image}'", hint="name an existing squashfs image") from None
    if len(head) < 96 or head[:4] != MAGIC:
        return None
    _, time, block, _, compression = struct.unpack("<IIIIH", head[4:22])
    size = struct.unpack("<Q", head[40:48])[0]
    if size > length or struct.unpack("<HH", head[28:32]) != (4, 0):
        return None
    name = COMPRESSIONS.get(compression, str(compression))
    return Superblock(compression=name, block=block, time=time)


def read_texts(
    image: Path, names: Sequence[str], *, largest: int = LARGEST_TEXT, known: Mapping[str, Listed] | None = None
) -> dict[str, str]:
    """Return the texts of the named files that exist in an image. known: the entries of the image, if already listed.

    Only regular files of at most `largest` bytes in real directories are extracted, so no symlink can lead out of the
    image. Names with pattern characters of unsquashfs are ignored. Raises BadInput if the file is not an image, or if
    the texts together have more than LARGEST_TEXTS bytes.
    """
    require_image(image)
    entries = by_name(listing(image, names)) if known is None else known
    small = [name for name in names if _is_text(name, entries, largest)]
    total = sum(entries[name].size for name in small)
    if total > LARGEST_TEXTS:
        raise BadInput(
            f"cannot open {image}: {total / 1e6:.0f} MB of metadata files is over the limit",
            hint=_HINT,
        )
    if not small:
        return {}
    with files.scratch_folder() as scratch:
        copy = scratch / "copy"
        _extract(image, copy, small)
        return {name: text for name in small if (text := _text(copy / name, largest)) is not None}


def _is_text(name: str, entries: Mapping[str, Listed], largest: int) -> bool:
    entry = entries.get(name)
    directories = [entries.get(os.fsdecode(parent)) for parent in parents(os.fsencode(name))]
    is_file = entry is not None and entry.kind == FILE and entry.size <= largest
    is_plain = re.fullmatch(r"[\w./+@%~,=-]+", name, re.ASCII) is not None and not name.startswith("-")
    return is_plain and is_file and all(directory is not None and directory.kind == FOLDER for directory in directories)


def refuse_foreign(target: Path) -> None:
    """Raise BadInput if the target exists and uenvtool did not pack it, or if its parent is not a directory."""
    files.require_directory(target.parent)
    if not os.path.lexists(target):
        return
    hint = "choose another name, or remove it"
    if target.is_symlink() or not target.is_file():
        raise BadInput(f"{target} is not a file", hint=hint)
    if superblock(target) is None or PACKED not in read_texts(target, [PACKED]):
        raise BadInput(f"{target} is not an image that uenvtool packed", hint=hint)


def _extract(image: Path, directory: Path, names: Sequence[str]) -> None:
    options = [*listings.limits(), "-no-progress", "-no-xattrs"]
    command: list[str | Path] = [find_program("unsquashfs"), *options, "-d", directory, image, *names]
    completed = processes.run(command, memory_bytes=listings.MEMORY_BYTES)
    if completed.code != 0 or not directory.is_dir():
        lines = [line for line in completed.stderr.splitlines() if line[:1].strip()]  # without continuation lines
        reason = lines[0] if lines else f"exit code {completed.code}"
        if full := files.full_disk(directory, completed.stderr):
            raise full
        with listings.damage_reported(image):
            raise ToolFailed(f"unsquashfs failed: {reason}")


def require_image(image: Path) -> Superblock:
    """Return the superblock of an image. Raises BadInput if the file is not an image."""
    head = superblock(image)
    if head is None:
        raise BadInput(f"{image} is not a squashfs image, or is truncated", hint=_HINT)
    return head


def _text(path: Path, largest: int) -> str | None:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > largest:
        return None
    return path.read_text(encoding="utf-8", errors="surrogateescape")
