"""Reads everything that an image holds, one file after the other, without writing any of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from uenvtool import tools
from uenvtool.errors import BadInput, ToolFailed, ToolMissing
from uenvtool.image.listing import MEMORY_BYTES, SYMLINK, Listed, limits
from uenvtool.image.programs import HOW_TO_GET, find_programs
from uenvtool.image.pseudo import read_definition, read_header

PIECE_BYTES = 1 << 20
SMALL_BYTES = 1 << 16
_SIZE = 6
"""Where a definition of a file has its size."""


def read_contents(image: Path, entries: Sequence[Listed]) -> Iterator[tuple[bytes, int, Iterator[bytes]]]:
    """Name, size and content of each file of an image, the content in pieces that are read as they come.

    entries: what the image holds (`listing`). A content that is not read to its end is passed over.
    Raises ToolMissing without unsquashfs 4.5 or later, BadInput if the image is damaged.
    """
    programs = find_programs()
    if not programs.pseudo_data:
        raise ToolMissing("unsquashfs is older than 4.5, and cannot write an image as a stream", hint=HOW_TO_GET)
    output = "-" if programs.sparse_field else "/dev/stdout"
    options = [*limits(), "-no-progress", "-quiet", "-no-xattrs"]
    words: list[str | Path] = [programs.unsquashfs, *options, "-pf", output, image]
    broken = sum(entry.name.count(b"\n") + (entry.kind == SYMLINK and entry.target.count(b"\n")) for entry in entries)
    try:
        with tools.reading(words, memory_bytes=MEMORY_BYTES) as stream:
            header = read_header(stream, lines=1 + len(entries) + broken)
            for name, size in _files_with_line_breaks(header, entries) if broken else _files(header):
                if size <= SMALL_BYTES:
                    yield name, size, iter((_whole(stream, size, name),))
                    continue
                content = _pieces(stream, size, name)
                yield name, size, content
                for _ in content:
                    continue
    except ToolFailed as error:
        reason = error.problems[0].message
        raise BadInput(f"{image} cannot be read: {reason}", hint="it may be damaged: copy or pack it again") from error


def file_sums(image: Path, entries: Sequence[Listed]) -> dict[str, str]:
    """The SHA-256 of each file's content, by its name. entries: what the image holds. Raises as `read_contents`."""
    sums = {}
    for name, _, pieces in read_contents(image, entries):
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        sums[os.fsdecode(name)] = digest.hexdigest()
    return sums


def _files(header: bytes) -> Iterator[tuple[bytes, int]]:
    """Name and size of each file, by definitions that are a line each: the usual image, which has many."""
    for line in header.split(b"\n"):
        if b"\\" in line:
            found = read_definition(line + b"\n", 0)
            if found is not None and found.size is not None:
                yield found.name, found.size
            continue
        words = line.split(b" ", 7)  # name, kind, time, mode, owner, group, and a file's size
        if len(words) > _SIZE and words[1] == b"R":
            yield words[0], int(words[_SIZE])


def _files_with_line_breaks(header: bytes, entries: Sequence[Listed]) -> Iterator[tuple[bytes, int]]:
    """The same where a name or a symlink's target has a line break; nothing quotes a target, so its length decides."""
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


def _whole(stream: BinaryIO, size: int, name: bytes) -> bytes:
    """The content of a small file, of which an image has many."""
    content = stream.read(size)
    if len(content) != size:
        raise ToolFailed(f"{name!r} ends too early")
    return content


def _pieces(stream: BinaryIO, size: int, name: bytes) -> Iterator[bytes]:
    while size > 0:
        piece = stream.read(min(size, PIECE_BYTES))
        if not piece:
            raise ToolFailed(f"{name!r} ends too early")
        yield piece
        size -= len(piece)
