"""Reads the superblock, the listing and the files of an image, with limits on memory and size."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from uenvtool.core import files, processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.image.metadata import PACKED
from uenvtool.image.programs import find_program, find_programs
from uenvtool.image.pseudo import read_definition, read_header
from uenvtool.image.tree import parents

MAGIC = b"hsqs"
COMPRESSIONS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}
LARGEST_TEXT = 8 << 20
"""The maximum number of bytes of a metadata file. uenvtool writes smaller files. Larger JSON could fill the memory."""
LARGEST_TEXTS = 64 << 20
"""The maximum number of bytes of all metadata files of an image together."""
MEMORY_BYTES = 4 << 30
"""The memory limit of unsquashfs. The tables of ten million files need less."""
LARGEST_LISTING = 256 << 20
"""The maximum number of bytes of an image's listing. The listing of two million files is smaller."""
FILE, FOLDER, SYMLINK = "-", "d", "l"
PIECE_BYTES = 1 << 20
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
    """Return the superblock of a squashfs 4.0 image (Linux, fs/squashfs/squashfs_fs.h), or None for any other file.

    Raises BadInput if the file does not exist.
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


def limits() -> list[str]:
    """Return the options that keep unsquashfs within MEMORY_BYTES. Each of its threads reserves 72 MiB."""
    return ["-processors", str(min(len(os.sched_getaffinity(0)), 16)), "-da", "64", "-fr", "64"]


class Listed(NamedTuple):
    """An entry of an image. A tuple, since an image has many entries.

    kind: the letter in `ls -l`: - (file), d (directory), l (symlink), or the letter of a device, pipe or socket. size:
    the size in bytes. target: the target of a symlink.
    """

    name: bytes
    kind: str
    size: int
    target: bytes = b""


def listing(image: Path, below: Sequence[str] = ()) -> list[Listed]:
    """Return the entries of an image except its root.

    below: if given, return only the entries below these paths and their parent directories. Raises ToolMissing if
    unsquashfs is not installed, BadInput if the image cannot be read or its listing is larger than LARGEST_LISTING.
    """
    token = secrets.token_hex(16).encode()  # marks the start of each name, since no name contains this random text
    command: list[str | Path] = [find_program("unsquashfs"), *limits(), "-lln", "-d", token.decode(), image, *below]
    env = {**os.environ, "TZ": "UTC0"}  # otherwise unsquashfs reads /etc/localtime for every entry
    with damage_reported(image), processes.reading(command, env=env, memory_bytes=MEMORY_BYTES) as stream:
        text = stream.read(LARGEST_LISTING + 1)
        if len(text) > LARGEST_LISTING:
            raise BadInput(f"{image} is not opened: its listing is larger than {LARGEST_LISTING >> 20} MiB")
    return list(_entries(text, b" " + token))


@contextlib.contextmanager
def damage_reported(image: Path) -> Iterator[None]:
    """Raise BadInput with the image's path if unsquashfs fails inside the block."""
    try:
        yield
    except ToolFailed as error:
        hint = "copy or pack the image again, since it may be damaged"
        raise BadInput(f"{image} cannot be read: {error.problems[0].message}", hint=hint) from error


def by_name(entries: Iterable[Listed]) -> dict[str, Listed]:
    """Return the entries of an image by name, as text. If two entries have the same name, the last one wins."""
    return {entry.name.decode("utf-8", "surrogateescape"): entry for entry in entries}


def _entries(text: bytes, mark: bytes) -> Iterator[Listed]:
    attributes, *parts = text.split(mark)  # a line has attributes, a mark, a name and a target
    attributes = attributes[attributes.rfind(b"\n") + 1 :]
    for part in parts:  # a name, a line break, and the attributes of the next entry, which have no line break
        end = part.rfind(b"\n")
        if end > 0:  # otherwise this is the root
            yield _entry(attributes, part[1:end])
        attributes = part[end + 1 :]


def _entry(attributes: bytes, text: bytes) -> Listed:
    kind, number = attributes[:1], attributes.split(None, 3)[2]
    size = int(number) if number.isdigit() else 0  # a device has two numbers, with a comma
    if kind == b"l":  # the size of a symlink is the length of its target
        return Listed(text[: len(text) - size - len(b" -> ")], SYMLINK, size, text[len(text) - size :])
    return Listed(text, kind.decode(), size)


def read_texts(
    image: Path, names: Sequence[str], *, largest: int = LARGEST_TEXT, known: Mapping[str, Listed] | None = None
) -> dict[str, str]:
    """Return the texts of the named files that exist in an image. known: the entries of the image, if already listed.

    Reads only regular files of at most `largest` bytes in real directories, so that no symlink can lead out of the
    image. Ignores names with pattern characters of unsquashfs. Raises BadInput if the file is not an image, or if the
    texts together have more than LARGEST_TEXTS bytes.
    """
    require_image(image)
    entries = by_name(listing(image, names)) if known is None else known
    small = [name for name in names if _is_text(name, entries, largest)]
    total = sum(entries[name].size for name in small)
    if total > LARGEST_TEXTS:
        raise BadInput(f"cannot open {image}: {total / 1e6:.0f} MB of metadata files is over the limit", hint=_HINT)
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
    options = [*limits(), "-no-progress", "-no-xattrs"]
    command: list[str | Path] = [find_program("unsquashfs"), *options, "-d", directory, image, *names]
    completed = processes.run(command, memory_bytes=MEMORY_BYTES)
    if completed.code != 0 or not directory.is_dir():
        lines = [line for line in completed.stderr.splitlines() if line[:1].strip()]  # without continuation lines
        reason = lines[0] if lines else f"exit code {completed.code}"
        if full := files.full_disk(directory, completed.stderr):
            raise full
        with damage_reported(image):
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


def read_contents(image: Path, entries: Sequence[Listed]) -> Iterator[tuple[bytes, int, Iterator[bytes]]]:
    """Yield the name, size and content of every file of an image, without extraction. Skips pieces that are not read.

    entries: see `listing`. Raises ToolMissing if unsquashfs 4.5 or newer is not installed, BadInput if the image is
    damaged.
    """
    programs = find_programs()
    options = [*limits(), "-no-progress", "-quiet", "-no-xattrs"]
    command: list[str | Path] = [programs.unsquashfs, *options, "-pf", programs.stream, image]
    with damage_reported(image), processes.reading(command, memory_bytes=MEMORY_BYTES) as stream:
        header = read_header(stream, ((entry.name, entry.target) for entry in entries))
        for name, size in _files(header, entries):
            pieces = _file_pieces(stream, size, name, image)
            yield name, size, pieces
            for _ in pieces:
                continue


def _files(header: bytes, entries: Sequence[Listed]) -> Iterator[tuple[bytes, int]]:
    # A symlink target is not quoted and may contain line breaks, so its length in the listing determines its end.
    targets = {entry.name: entry.target for entry in entries if entry.kind == SYMLINK}
    start = 0
    while start < len(header):
        definition = read_definition(header, start)
        if definition is not None and definition.size is not None:
            yield definition.name, definition.size
        end = definition.end if definition else start
        if definition is not None and definition.attributes[0] == b"S":
            end += 1 + len(targets.get(definition.name, b""))
        start = header.find(b"\n", end) + 1 or len(header)


def _file_pieces(stream: BinaryIO, size: int, name: bytes, image: Path) -> Iterator[bytes]:
    with damage_reported(image):  # the reader of the pieces gets the error, not `read_contents`
        while size > 0:
            piece = stream.read(min(size, PIECE_BYTES))
            if not piece:
                raise ToolFailed(f"{os.fsdecode(name)} is truncated")
            yield piece
            size -= len(piece)
