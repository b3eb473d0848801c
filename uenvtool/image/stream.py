"""Reads everything that an image holds, one file after the other, without writing any of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.image.listing import MEMORY_BYTES, SYMLINK, Listed, damage_said_of, limits
from uenvtool.image.programs import find_programs
from uenvtool.image.pseudo import read_definition, read_header, unescaped

PIECE_BYTES = 1 << 20
_LINE = re.compile(rb"([^\\ \n]*(?:\\.[^\\ \n]*)*)(?: R \d+ \d+ \d+ \d+ (\d+) )?[^\n]*\n")
"""A definition: its name, where a backslash stands before each blank, and its size if it is a file's.

It matches every line as a whole, so that no search begins within one.
"""


class Batch(NamedTuple):
    """Small files of an image, one behind another. An image has many, so that they are read together.

    files: name, and where its content begins and ends in that of all of them.
    """

    content: bytes
    files: Sequence[tuple[bytes, int, int]]


class LargeFile(NamedTuple):
    """A file of an image that is larger than PIECE_BYTES; its content in pieces that are read as they come."""

    name: bytes
    size: int
    pieces: Iterator[bytes]


def read_contents(image: Path, entries: Sequence[Listed]) -> Iterator[Batch | LargeFile]:
    """Yield every file of an image with its content.

    entries: what the image holds (`listing`). What is not read of a large file is passed over.
    Raises ToolMissing without unsquashfs 4.5 or later, BadInput if the image is damaged.
    """
    programs = find_programs()
    options = [*limits(), "-no-progress", "-quiet", "-no-xattrs"]
    words: list[str | Path] = [programs.unsquashfs, *options, "-pf", programs.stream, image]
    broken = sum(entry.name.count(b"\n") + entry.target.count(b"\n") for entry in entries)
    with damage_said_of(image), processes.reading(words, memory_bytes=MEMORY_BYTES) as stream:
        header = read_header(stream, lines=1 + len(entries) + broken)
        files = _files_with_line_breaks(header, entries) if broken else _files(header)
        yield from _contents(stream, files, image)


def _contents(stream: BinaryIO, files: Iterator[tuple[bytes, int]], image: Path) -> Iterator[Batch | LargeFile]:
    batch: list[tuple[bytes, int, int]] = []
    end = 0
    for name, size in files:
        if batch and end + size > PIECE_BYTES:
            yield Batch(_whole(stream, end, batch), batch)
            batch, end = [], 0
        if size > PIECE_BYTES:
            large = LargeFile(name, size, _pieces(stream, size, name, image))
            yield large
            for _ in large.pieces:
                continue
        else:
            batch.append((name, end, end + size))
            end += size
    if batch:
        yield Batch(_whole(stream, end, batch), batch)


def _files(header: bytes) -> Iterator[tuple[bytes, int]]:
    """Name and size of each file, by definitions that are a line each: the usual image, which has many."""
    for name, size in _LINE.findall(header):
        if size:
            yield (unescaped(name) if b"\\" in name else name), int(size)


def _files_with_line_breaks(header: bytes, entries: Sequence[Listed]) -> Iterator[tuple[bytes, int]]:
    """Return the same where a name or target has a line break; nothing quotes a target, so its length decides."""
    targets = {entry.name: entry.target for entry in entries if entry.kind == SYMLINK}
    start = 0
    while start < len(header):
        found = read_definition(header, start)
        if found is not None and found.size is not None:
            yield found.name, found.size
        end = found.end if found else start
        if found is not None and found.attributes[0] == b"S":
            end += 1 + len(targets.get(found.name, b""))
        start = header.find(b"\n", end) + 1 or len(header)


def _whole(stream: BinaryIO, size: int, files: Sequence[tuple[bytes, int, int]]) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        short = next(name for name, _, end in files if end > len(content))
        raise ToolFailed(f"{os.fsdecode(short)} ends too early")
    return content


def _pieces(stream: BinaryIO, size: int, name: bytes, image: Path) -> Iterator[bytes]:
    with damage_said_of(image):  # whoever reads the pieces gets the error, not `read_contents`
        while size > 0:
            piece = stream.read(min(size, PIECE_BYTES))
            if not piece:
                raise ToolFailed(f"{os.fsdecode(name)} ends too early")
            yield piece
            size -= len(piece)
