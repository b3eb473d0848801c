"""Reads and writes pseudo files, with which squashfs-tools 4.5 or newer add files to an image or read it (`-pf`).

A pseudo file has one definition per line, a data marker, and then the contents of the defined files. mksquashfs
reads pseudo files, and unsquashfs writes them. A definition can also make mksquashfs run a command (`NAME f MODE UID
GID COMMAND`), so a name must never contain a line break.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files import fill_from
from uenvtool.image.programs import Programs
from uenvtool.image.tree import Tree

MARK = b"#\n# START OF DATA - DO NOT MODIFY\n#\n"
_LONGEST_LINE = 1 << 16
"""An upper bound for the bytes of a line. Names and symlink targets have at most 4096 bytes, and names are escaped."""
_ESCAPED = re.compile(rb"[\s\"\\]")
"""Characters that must be escaped in a name: C's isspace, quotes and backslashes (4.5.1, pseudo.c)."""
_SPECIAL = re.compile(rb"[^\w/]")
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_DEFINITION = re.compile(
    rb"(?! )([^\\ ]*(?:\\.[^\\ ]*)*) ([A-Za-z]) (\d+) ([0-7]+) (\d+) (\d+)(?: (\d+) (\d+)( \d+)?(?=\n))?", re.DOTALL
)
"""Name, kind, time, mode, owner and group. A file also has a size, an offset and sometimes a sparse field."""


class Definition(NamedTuple):
    """A parsed definition.

    name: a relative path, or `/` for the root. attributes: kind, time, mode, owner and group as text. size, offset: the
    size of a file and the position of its contents after the data marker, in bytes. end: the end of the definition,
    after which a symlink has its unquoted target.
    """

    name: bytes
    attributes: tuple[bytes, ...]
    size: int | None
    offset: int | None
    end: int


def is_quotable(name: bytes) -> bool:
    """Return whether a definition can contain this name. A line break cannot be escaped."""
    return b"\n" not in name


def quoted(name: bytes) -> bytes:
    """Return a relative name, escaped for a definition. Raises BadInput if it contains a line break."""
    return b"/" + _ESCAPED.sub(rb"\\\g<0>", _one_line(name))


def pattern(name: bytes) -> bytes:
    """Return an exclude pattern (`-wildcards -ef`) that matches only this relative name.

    The pattern starts with a backslash, which mksquashfs removes, so that no line starts with a space, a `#`, or the
    `... ` of patterns for all directories. Raises BadInput if the name contains a line break.
    """
    return b"\\" + _SPECIAL.sub(rb"\\\g<0>", _one_line(name))


def _one_line(name: bytes) -> bytes:
    if not is_quotable(name):
        hint = "rename or remove the file, then pack again"
        raise BadInput(f"{os.fsdecode(name)!r} contains a line break, which mksquashfs does not support", hint=hint)
    return name


def write_pseudo_file(tree: Tree, programs: Programs, epoch: int, scratch: Path) -> Path:
    """Write the pseudo file for the added files of a tree, and return its path.

    epoch: the time of each file, in seconds since 1970. Raises BadInput if a name contains a line break.
    """
    directories = [b"%b D %d 755 0 0\n" % (quoted(name), epoch) for name in tree.added_folders()]
    definitions = file_definitions(tree, epoch, sparse_field=programs.sparse_field)
    fill_from(scratch / "added", [*directories, *definitions, MARK, *tree.added.values()])
    return scratch / "added"


def file_definitions(tree: Tree, epoch: int, *, sparse_field: bool) -> Iterator[bytes]:
    """Yield a definition for each added file. Their contents follow each other without gaps."""
    end = b" 0\n" if sparse_field else b"\n"
    offset = 0
    for name in tree.added:
        entry = tree.added_entry(name)
        yield b"%b R %d %o 0 0 %d %d%b" % (quoted(name), epoch, entry.mode, entry.size, offset, end)
        offset += entry.size


def read_header(stream: BinaryIO, entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the header of a pseudo file, which has the root and these names, each with a symlink target or b"".

    Counts lines, because symlink targets are not quoted and may look like the data marker. Raises ToolFailed if
    the data marker is not after the last line.
    """
    lines = 1 + sum(1 + name.count(b"\n") + target.count(b"\n") for name, target in entries)
    header = list(islice(iter(partial(stream.readline, _LONGEST_LINE), b""), lines))
    if stream.read(len(MARK)) != MARK:
        raise ToolFailed("the names from unsquashfs differ from the expected names")
    return b"".join(header)


def read_definition(header: bytes, start: int) -> Definition | None:
    """Return the definition that starts at this offset of the header, or None if it is invalid."""
    match = _DEFINITION.match(header, start)
    if match is None:
        return None
    name = _ESCAPE.sub(rb"\1", match[1])
    attributes = match.group(2, 3, 4, 5, 6)
    if attributes[0] != b"R" or match[7] is None:
        return Definition(name, attributes, None, None, match.end(6))
    return Definition(name, attributes, int(match[7]), int(match[8]), match.end())
