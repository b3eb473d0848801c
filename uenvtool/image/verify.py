"""Reads an image back and compares every name, mode, time and byte with the tree that it was made of."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from uenvtool import tools
from uenvtool.errors import ToolFailed
from uenvtool.image.pack import contents
from uenvtool.image.programs import Programs
from uenvtool.image.tree import FOLDER_MODE, Entry, Tree, walk

_HEAD = re.compile(rb"((?:\\.|[^\\ ])+) ([A-Za-z]) (\d+) ([0-7]+) (\d+) (\d+)", re.DOTALL)
_PLACE = re.compile(rb" (\d+) (\d+)(?: (\d+))?\n")
_MARK = b"#\n# START OF DATA - DO NOT MODIFY\n#\n"
_MOST_HEADER = 1 << 30
HINT = "the old image, if any, is as it was; pack again, and check the disk if it fails again"


def verify(programs: Programs, image: Path, tree: Tree, scratch: Path, epoch: int) -> int:
    """Raise ToolFailed where the image is not the tree; the number of names that are right."""
    expected = tree.expected
    if not programs.pseudo_data:
        return _verify_unpacked(programs, image, tree, expected, scratch)
    output = "-" if programs.pseudo_sparse else "/dev/stdout"
    quiet = ["-no-progress", "-quiet"] if programs.version >= (4, 4) else ["-no-progress"]
    with tools.reading([programs.unsquashfs, *quiet, "-pf", output, image]) as stream:
        order = _listed(_header(stream), expected, epoch)
        _compare(stream, order, tree, expected)
    return len(expected)


def _header(stream: BinaryIO) -> bytes:
    """Everything before the mark, which ends in a line of its own."""
    lines: list[bytes] = []
    size = 0
    while lines[-1:] != [b"#\n"] or b"".join(lines[-3:]) != _MARK:
        line = stream.readline(_MOST_HEADER)
        size += len(line)
        if not line or size > _MOST_HEADER:
            raise ToolFailed("the image that was written cannot be read back", hint=HINT)
        lines.append(line)
    return b"".join(lines[:-3])


def _listed(header: bytes, expected: Mapping[bytes, Entry], epoch: int) -> list[tuple[int, bytes]]:
    """The files by their place in the stream; every name was compared."""
    order: list[tuple[int, bytes]] = []
    seen: set[bytes] = set()
    at = 0
    while at < len(header):
        match = _HEAD.match(header, at)
        if match is None:
            raise _differs(header[at : at + 80], "cannot be read")
        name = re.sub(rb"\\(.)", rb"\1", match[1], flags=re.DOTALL)
        kind, time, mode, owners = match[2], int(match[3]), int(match[4], 8), (match[5], match[6])
        entry = Entry("d", FOLDER_MODE) if name == b"/" else expected.get(name)
        if entry is None or name in seen:
            raise _differs(name, "is there and should not be")
        seen.add(name)
        if (kind, mode, time, owners) != (_kind(entry), entry.mode, epoch, (b"0", b"0")):
            raise _differs(name, "has another kind, mode, time or owner")
        at = match.end()
        if entry.kind == "f":
            place = _PLACE.match(header, at)
            if place is None or int(place[1]) != entry.size:
                raise _differs(name, "has another size")
            order.append((int(place[2]), name))
            at = place.end()
        else:
            rest = b" " + entry.target + b"\n" if entry.kind == "l" else b"\n"
            if not header.startswith(rest, at):
                raise _differs(name, "points elsewhere")
            at += len(rest)
    if len(seen - {b"/"}) != len(expected):
        raise _differs(min(expected.keys() - seen), "is missing")
    return sorted(order)


def _kind(entry: Entry) -> bytes:
    return {"d": b"D", "f": b"R", "l": b"S"}[entry.kind]


def _compare(stream: BinaryIO, order: list[tuple[int, bytes]], tree: Tree, expected: Mapping[bytes, Entry]) -> None:
    """Compare what follows in the stream, file by file, with what was packed."""
    at = 0
    for offset, name in order:
        size = expected[name].size
        if not size:
            continue
        if offset != at:
            raise _differs(name, "is at another place")
        try:
            for piece in contents(tree, name, size):
                if stream.read(len(piece)) != piece:
                    raise _differs(name, "has other content")
                at += len(piece)
        except OSError as error:
            raise ToolFailed(f"cannot read {error.filename}: {error.strerror}", hint=HINT) from error
        if at != offset + size:
            raise _differs(name, "was changed while it was packed")


def _verify_unpacked(
    programs: Programs, image: Path, tree: Tree, expected: Mapping[bytes, Entry], scratch: Path
) -> int:
    """The same by unpacking: for versions before 4.5."""
    copy = scratch / "copy"
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
                if any(stream.read(len(piece)) != piece for piece in contents(tree, name, entry.size)) or stream.read(
                    1
                ):
                    raise _differs(name, "has other content")
    return len(expected)


def _differs(name: bytes, how: str) -> ToolFailed:
    return ToolFailed(f"the image that was written is not what was packed: {os.fsdecode(name)!r} {how}", hint=HINT)
