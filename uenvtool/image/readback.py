"""Reads an image back and compares every name, mode, time and byte with the tree that was packed."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.image.programs import Programs
from uenvtool.image.pseudo import read_definition, read_header
from uenvtool.image.tree import FOLDER, Entry, Tree, file_content

_QUEUES = ("-da", "32", "-fr", "32")
"""The block caches of unsquashfs in MiB. Its default of 256 each is slower, since each block uses fresh pages."""


HINT = "pack the image again, and check the disk if it fails again; an existing image is unchanged"


def read_back(programs: Programs, image: Path, tree: Tree, epoch: int) -> None:
    """Read an image completely and compare it with its tree. Raises ToolFailed if they differ."""
    command: list[str | Path] = [programs.unsquashfs, *_QUEUES, "-no-progress", "-quiet", "-pf", programs.stream, image]
    with processes.reading(command) as stream:
        header = _header(stream, tree)
        read = 0
        for name, offset, size in _files(header, tree.expected, epoch) if header else ():
            if size:
                if offset != read:
                    raise _differs(name, "has another offset")
                _compare(stream, tree, name, size)
                read += size
    if not header:  # although unsquashfs reported no failure
        raise _not_packed("names differ")


def _header(stream: BinaryIO, tree: Tree) -> bytes:
    """Return the header with the names, or b"" if the stream ends early, so that unsquashfs can report the reason."""
    try:
        return read_header(stream, lines=_lines(tree.expected))
    except ToolFailed as error:
        if not stream.read(1):
            return b""
        raise _not_packed("names differ") from error


def _lines(expected: Mapping[bytes, Entry]) -> int:
    """Return the number of lines that unsquashfs writes for these names and the root. Names may have line breaks."""
    names = (name if entry.kind != "l" else name + entry.target for name, entry in expected.items())
    return 1 + sum(1 + text.count(b"\n") for text in names)


def _files(header: bytes, expected: Mapping[bytes, Entry], epoch: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, offset and size of each file in the order of the stream, and compare each name on the way.

    The names are compared one by one, so that unsquashfs does not wait until all are compared. For speed, each line is
    compared as bytes with its expected text, since an image has many lines. No name can be missing, because the header
    has the expected number of lines, and each of them is a different expected name.
    """
    seen: set[bytes] = set()
    start = 0
    while start < len(header):
        name, start = _name(header, start)
        entry = FOLDER if name == b"/" else expected.get(name)
        if entry is None or name in seen:
            raise _differs(name, "is in the image but was not packed, or occurs twice")
        seen.add(name)
        line = _line(entry.kind, entry.mode, epoch, entry.size) + entry.target
        if not header.startswith(line, start):
            raise _differs(name, "has another kind, mode, time, owner, size or target")
        end = header.find(b"\n", start + len(line))
        rest = header[start + len(line) : end]
        if rest and entry.kind != "f":
            raise _differs(name, "has another symlink target, or unexpected attributes")
        start = end + 1
        if entry.kind == "f":
            offset = rest.split(b" ", 1)[0]  # a sparse field may follow
            if not offset.isdigit():
                raise _differs(name, "has another size")
            yield name, int(offset), entry.size


def _name(header: bytes, start: int) -> tuple[bytes, int]:
    end = header.find(b" ", start)
    name = header[start:end]
    if b"\\" not in name and end >= 0:
        return name, end
    definition = read_definition(header, start)
    if definition is None:
        raise _differs(header[start : start + 80], "cannot be parsed")
    return definition.name, definition.start


@functools.cache
def _line(kind: str, mode: int, epoch: int, size: int) -> bytes:
    head = b" %b %d %o 0 0" % ({"d": b"D", "f": b"R", "l": b"S"}[kind], epoch, mode)
    return {"d": head, "f": b"%b %d " % (head, size), "l": head + b" "}[kind]


def _compare(stream: BinaryIO, tree: Tree, name: bytes, size: int) -> None:
    read = 0
    try:
        for piece in file_content(tree, name, size):
            if stream.read(len(piece)) != piece:
                raise _differs(name, "has other content")
            read += len(piece)
    except OSError as error:
        raise ToolFailed(f"cannot read {os.fsdecode(error.filename or name)}: {error.strerror}", hint=HINT) from error
    if read != size:
        raise _differs(name, "changed while it was packed")


def _differs(name: bytes, how: str) -> ToolFailed:
    return _not_packed(f"{os.fsdecode(name)!r} {how}")


def _not_packed(how: str) -> ToolFailed:
    return ToolFailed(f"the written image differs from the packed files: {how}", hint=HINT)
