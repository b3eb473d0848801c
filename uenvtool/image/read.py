"""Opens an image: what it is, and the few files that describe it."""

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
"""Bytes of a file that describes an image; a larger one is not ours, and as JSON would fill the memory."""

LARGEST_TEXTS = 64 << 20
"""Bytes of all such files of an image together."""
_HINT = "name a squashfs image; copy it again if it should be one"


@dataclass(frozen=True, kw_only=True, slots=True)
class Superblock:
    """The first bytes of a squashfs image.

    compression: by name. block: in bytes. time: seconds since 1970.
    """

    compression: str
    block: int
    time: int


def superblock(image: Path) -> Superblock | None:
    """Return the first bytes of a squashfs image; None if it is not one. Raises BadInput if there is no file to read.

    The layout is that of version 4.0 (Linux, fs/squashfs/squashfs_fs.h).
    """
    try:
        with files.opened(image) as stream:
            head = stream.read(96)
            length = os.fstat(stream.fileno()).st_size
    except FileNotFoundError:
        raise BadInput(f"{image}: no such file", hint=_HINT) from None
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
    """Return the texts of those files that the image holds. known: all that it holds (`by_name`), if that is known.

    Only regular files of at most `largest` bytes count, in real folders: what an image holds is not
    followed out of it, and nothing else is taken out of it. A name with a character that unsquashfs
    takes for a pattern does not count either. Raises BadInput if it is no image, or if all of them
    together have more than LARGEST_TEXTS bytes.
    """
    require_image(image)
    held = by_name(listing(image, names)) if known is None else known
    small = [name for name in names if _is_text(name, held, largest)]
    total = sum(held[name].size for name in small)
    if total > LARGEST_TEXTS:
        raise BadInput(f"{image} has {total / 1e6:.0f} MB of descriptions; it is not opened", hint=_HINT)
    if not small:
        return {}
    with files.scratch_folder() as scratch:
        copy = scratch / "copy"
        _extract(image, copy, small)
        return {name: text for name in small if (text := _text(copy / name, largest)) is not None}


def _is_text(name: str, held: Mapping[str, Listed], largest: int) -> bool:
    entry = held.get(name)
    folders = [held.get(os.fsdecode(parent)) for parent in parents(os.fsencode(name))]
    is_file = entry is not None and entry.kind == FILE and entry.size <= largest
    is_plain = re.fullmatch(r"[\w./+@%~,=-]+", name, re.ASCII) is not None and not name.startswith("-")
    return is_plain and is_file and all(folder is not None and folder.kind == FOLDER for folder in folders)


def refuse_foreign(target: Path) -> None:
    """Raise BadInput if the target is something that this tool did not pack, or a file is where its folder must be."""
    files.require_directory(target.parent)
    if not os.path.lexists(target):
        return
    hint = "choose another name, or remove it yourself"
    if target.is_symlink() or not target.is_file():
        raise BadInput(f"{target} is not a file", hint=hint)
    if superblock(target) is None or PACKED not in read_texts(target, [PACKED]):
        raise BadInput(f"{target} is not an image that uenvtool packed", hint=hint)


def _extract(image: Path, folder: Path, names: Sequence[str]) -> None:
    options = [*listings.limits(), "-no-progress", "-no-xattrs"]
    words: list[str | Path] = [find_program("unsquashfs"), *options, "-d", folder, image, *names]
    completed = processes.run(words, memory_bytes=listings.MEMORY_BYTES)
    if completed.code != 0 or not folder.is_dir():
        lines = [line for line in completed.stderr.splitlines() if line[:1].strip()]  # else more of one before
        reason = lines[0] if lines else f"exit code {completed.code}"
        if full := files.full_disk(folder, completed.stderr):
            raise full
        with listings.damage_said_of(image):
            raise ToolFailed(f"unsquashfs failed: {reason}")


def require_image(image: Path) -> Superblock:
    """Return the first bytes of an image. Raises BadInput if the file is not one."""
    head = superblock(image)
    if head is None:
        raise BadInput(f"{image} is not a squashfs image, or is cut short", hint=_HINT)
    return head


def _text(path: Path, largest: int) -> str | None:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > largest:
        return None
    return path.read_text(encoding="utf-8", errors="surrogateescape")
