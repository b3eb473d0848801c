"""Streams the contents of all files of an image, without extracting them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.image.listing import MEMORY_BYTES, SYMLINK, Listed, damage_reported, limits
from uenvtool.image.programs import find_programs
from uenvtool.image.pseudo import read_definition, read_header, unescaped

PIECE_BYTES = 1 << 20
_LINE = re.compile(rb"([^\\ \n]*(?:\\.[^\\ \n]*)*)(?: R \d+ \d+ \d+ \d+ (\d+) )?[^\n]*\n")
"""A definition: its name, with escaped spaces, and its size if it is a file.

The expression matches whole lines, so that no search starts inside a line.
"""


class Batch(NamedTuple):
    """Several small files of an image, which are read together for speed.

    content: the concatenated contents. files: the name of each file, and the start and end of its content.
    """

    content: bytes
    files: Sequence[tuple[bytes, int, int]]


class LargeFile(NamedTuple):
    """A file of an image that is larger than PIECE_BYTES. Its pieces are read on demand."""

    name: bytes
    size: int
    pieces: Iterator[bytes]


def read_contents(image: Path, entries: Sequence[Listed]) -> Iterator[Batch | LargeFile]:
    """Yield every file of an image with its content.

    entries: the entries of the image (`listing`). Unread pieces of a large file are skipped. Raises ToolMissing if
    unsquashfs 4.5 or newer is not installed, BadInput if the image is damaged.
    """
    programs = find_programs()
    options = [*limits(), "-no-progress", "-quiet", "-no-xattrs"]
    command: list[str | Path] = [programs.unsquashfs, *options, "-pf", programs.stream, image]
    line_breaks = sum(entry.name.count(b"\n") + entry.target.count(b"\n") for entry in entries)
    with damage_reported(image), processes.reading(command, memory_bytes=MEMORY_BYTES) as stream:
        header = read_header(stream, lines=1 + len(entries) + line_breaks)
        files = _files_with_line_breaks(header, entries) if line_breaks else _files(header)
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
    """Yield the name and size of each file. Fast, but only for images without line breaks in names and targets."""
    for name, size in _LINE.findall(header):
        if size:
            yield (unescaped(name) if b"\\" in name else name), int(size)


def _files_with_line_breaks(header: bytes, entries: Sequence[Listed]) -> Iterator[tuple[bytes, int]]:
    """Yield the name and size of each file if names or targets contain line breaks.

    Targets are not quoted, so their lengths from the listing determine where they end.
    """
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


def _whole(stream: BinaryIO, size: int, files: Sequence[tuple[bytes, int, int]]) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        short = next(name for name, _, end in files if end > len(content))
        raise ToolFailed(f"{os.fsdecode(short)} is truncated")
    return content


def _pieces(stream: BinaryIO, size: int, name: bytes, image: Path) -> Iterator[bytes]:
    with damage_reported(image):  # the reader of the pieces gets the error, not `read_contents`
        while size > 0:
            piece = stream.read(min(size, PIECE_BYTES))
            if not piece:
                raise ToolFailed(f"{os.fsdecode(name)} is truncated")
            yield piece
            size -= len(piece)
