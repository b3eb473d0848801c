"""Reads an image back and compares every name, mode, time and byte with the tree that it was made of."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from uenvtool import tools
from uenvtool.errors import ToolFailed
from uenvtool.image.pack import MARK, contents
from uenvtool.image.programs import Programs
from uenvtool.image.tree import FOLDER_MODE, Entry, Tree, walk

_LINE = re.compile(rb"((?:\\.|[^\\ ])+) ([A-Za-z]) (\d+) ([0-7]+) (\d+) (\d+)(?: (\d+) (\d+)( \d+)?(?=\n))?", re.DOTALL)
"""Name, kind, time, mode, owners; of a file its size, its place in the stream, and whether it is sparse."""
_QUEUES = ("-da", "32", "-fr", "32")
"""MiB of what unsquashfs has ready. Its own 256 of each is slower: fresh pages for every block."""
_MOST_HEADER = 1 << 30
HINT = "the old image, if any, is as it was; pack again, and check the disk if it fails again"


def verify(programs: Programs, image: Path, tree: Tree, scratch: Path, epoch: int) -> int:
    """Raise ToolFailed where the image is not the tree; the number of names that are right."""
    if not programs.pseudo_data:
        return _verify_unpacked(programs, image, tree, scratch)
    output = "-" if programs.pseudo_sparse else "/dev/stdout"
    with tools.reading([programs.unsquashfs, *_QUEUES, "-no-progress", "-quiet", "-pf", output, image]) as stream:
        at = 0
        for name, offset, size in _files(_header(stream), tree.expected, epoch):
            if size:
                if offset != at:
                    raise _differs(name, "is at another place")
                _compare(stream, tree, name, size)
                at += size
    return len(tree.expected)


def _header(stream: BinaryIO) -> bytes:
    """Everything before the mark, which ends in a line of its own."""
    lines: list[bytes] = []
    size = 0
    while lines[-1:] != [b"#\n"] or b"".join(lines[-3:]) != MARK:
        line = stream.readline(_MOST_HEADER)
        size += len(line)
        if not line or size > _MOST_HEADER:
            raise ToolFailed("the image that was written cannot be read back", hint=HINT)
        lines.append(line)
    return b"".join(lines[:-3])


def _files(header: bytes, expected: Mapping[bytes, Entry], epoch: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, place and size of each file, in the order of the stream, as one name after the other is compared.

    One by one, so that unsquashfs need not wait until all lines are read.
    """
    seen: set[bytes] = set()
    at = 0
    while at < len(header):
        match = _LINE.match(header, at)
        if match is None:
            raise _differs(header[at : at + 80], "cannot be read")
        name = re.sub(rb"\\(.)", rb"\1", match[1], flags=re.DOTALL) if b"\\" in match[1] else match[1]
        entry = Entry("d", FOLDER_MODE) if name == b"/" else expected.get(name)
        if entry is None or name in seen:
            raise _differs(name, "is there and should not be")
        seen.add(name)
        if match.group(2, 3, 4, 5, 6) != _right(entry.kind, entry.mode, epoch):
            raise _differs(name, "has another kind, mode, time or owner")
        rest = _rest(entry, match)
        if not header.startswith(rest, match.end(6)):
            raise _differs(name, "has another size" if entry.kind == "f" else "points elsewhere")
        at = match.end(6) + len(rest)
        if entry.kind == "f":
            yield name, int(match[8]), entry.size
    if len(seen - {b"/"}) != len(expected):
        raise _differs(min(expected.keys() - seen), "is missing")


@functools.cache
def _right(kind: str, mode: int, epoch: int) -> tuple[bytes, ...]:
    """Kind, time, mode and owners as unsquashfs writes them."""
    return {"d": b"D", "f": b"R", "l": b"S"}[kind], b"%d" % epoch, b"%o" % mode, b"0", b"0"


def _rest(entry: Entry, match: re.Match[bytes]) -> bytes:
    """The end of a line: a file's size and place (the latter as it is), a symlink's target."""
    if entry.kind == "f":
        return b" %d %b%b\n" % (entry.size, match[8] or b"", match[9] or b"")
    return b" " + entry.target + b"\n" if entry.kind == "l" else b"\n"


def _compare(stream: BinaryIO, tree: Tree, name: bytes, size: int) -> None:
    """Compare what is next in the stream with what was packed."""
    read = 0
    try:
        for piece in contents(tree, name, size):
            if stream.read(len(piece)) != piece:
                raise _differs(name, "has other content")
            read += len(piece)
    except OSError as error:
        raise ToolFailed(f"cannot read {error.filename}: {error.strerror}", hint=HINT) from error
    if read != size:
        raise _differs(name, "was changed while it was packed")


def _verify_unpacked(programs: Programs, image: Path, tree: Tree, scratch: Path) -> int:
    """The same by unpacking: for versions before 4.5."""
    expected, copy = tree.expected, scratch / "copy"
    completed = tools.run([programs.unsquashfs, "-no-progress", "-d", copy, image])
    if completed.code != 0:
        raise ToolFailed("the image that was written cannot be read back", hint=HINT)
    found = walk(copy)
    for name in sorted(found.keys() | {name for name in expected if b"__pycache__" not in name.split(b"/")}):
        if found.get(name) != expected.get(name):
            raise _differs(name, "is not as it should be")
    for name, entry in expected.items():
        if entry.kind == "f":
            with open(os.path.join(os.fsencode(copy), name), "rb") as stream:
                _compare(stream, tree, name, entry.size)
                if stream.read(1):
                    raise _differs(name, "has other content")
    return len(expected)


def _differs(name: bytes, how: str) -> ToolFailed:
    return ToolFailed(f"the image that was written is not what was packed: {os.fsdecode(name)!r} {how}", hint=HINT)
