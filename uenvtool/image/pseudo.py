"""Reads and writes the pseudo files of squashfs-tools, which add files to an image or list its contents.

A pseudo file has one definition per line, a mark, and then the contents of the defined files (squashfs-tools 4.5 or
newer, `-pf`). mksquashfs reads pseudo files, and unsquashfs writes them. A definition can also make mksquashfs run a
command (`NAME f MODE UID GID COMMAND`), so a name must never contain a line break.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files import fill_from, fill_start
from uenvtool.image.programs import Programs
from uenvtool.image.tree import Bundle, Tree

MARK = b"#\n# START OF DATA - DO NOT MODIFY\n#\n"
_NUMBERS_BYTES = 100
"""The maximum number of bytes of a definition without its name: six numbers, spaces, a letter and a line break."""
_LONGEST_LINE = 1 << 16
"""The most bytes of a line. A name and a symlink target have at most 4096 each, and each byte of a name may be
escaped."""
HINT = "pack the image again, and check the disk if it fails again"
_COMMENT = b"#" * 126 + b"\n"
_ESCAPED = re.compile(rb"[\s\"\\]")
"""Characters that must be escaped in a name: C's isspace, quotes and backslashes (4.5.1, pseudo.c)."""
_SPECIAL = re.compile(rb"[^\w/]")
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_DEFINITION = re.compile(
    rb"((?:\\.|[^\\ ])+) ([A-Za-z]) (\d+) ([0-7]+) (\d+) (\d+)(?: (\d+) (\d+)( \d+)?(?=\n))?", re.DOTALL
)
"""Name, kind, time, mode, owner and group. A file also has a size, an offset, and a sparse field."""


class Definition(NamedTuple):
    """A parsed definition.

    name: relative, `/` for the root of the image. attributes: kind, time, mode, owner and group as text. size, offset:
    the size of a file and the position of its contents after the mark, in bytes. start: the end of the name in the
    header. end: the end of the definition, where the unquoted target of a symlink begins.
    """

    name: bytes
    attributes: tuple[bytes, ...]
    size: int | None
    offset: int | None
    start: int
    end: int


def is_quotable(name: bytes) -> bool:
    """Return whether squashfs-tools can represent this name. A line break cannot be quoted."""
    return b"\n" not in name


def quoted(name: bytes) -> bytes:
    """Return a relative name as it is written in a definition. Raises BadInput if it contains a line break."""
    return b"/" + _ESCAPED.sub(rb"\\\g<0>", _one_line(name))


def pattern(name: bytes) -> bytes:
    """Return a pattern (`-wildcards -ef`) that matches only this relative name.

    mksquashfs removes the first backslash of a line. It keeps the line from starting with a space, a comment or `... `,
    which marks patterns for all directories. Raises BadInput if the name contains a line break.
    """
    return b"\\" + _SPECIAL.sub(rb"\\\g<0>", _one_line(name))


def _one_line(name: bytes) -> bytes:
    if not is_quotable(name):
        hint = "rename or remove the file, then pack again"
        raise BadInput(f"{os.fsdecode(name)!r} contains a line break, which mksquashfs does not support", hint=hint)
    return name


def write_pseudo_files(tree: Tree, programs: Programs, epoch: int, scratch: Path) -> list[Path]:
    """Write pseudo files for the added files of a tree, and return their paths. Bundles become pseudo files in place.

    epoch: the time of each file, in seconds since 1970. Raises BadInput if a name contains a line break.
    """
    first = scratch / "added"
    directories = [b"%b D %d 755 0 0\n" % (quoted(name), epoch) for name in tree.added_folders()]
    definitions = file_definitions(tree, tree.added, epoch, sparse_field=programs.sparse_field)
    fill_from(first, [*directories, *definitions, MARK, *tree.added.values()])
    for bundle in tree.bundles:
        write_bundle_header(tree, bundle, epoch, sparse_field=programs.sparse_field)
    return [first, *(bundle.file for bundle in tree.bundles)]


def file_definitions(tree: Tree, names: Iterable[bytes], epoch: int, *, sparse_field: bool) -> Iterator[bytes]:
    """Yield a definition for each of these files of a tree. Their contents are consecutive."""
    end = b" 0\n" if sparse_field else b"\n"
    offset = 0
    for name in names:
        entry = tree.added_entry(name)
        yield b"%b R %d %o 0 0 %d %d%b" % (quoted(name), epoch, entry.mode, entry.size, offset, end)
        offset += entry.size


def header_bytes(names: Sequence[bytes]) -> int:
    """Return an upper bound for the size of these files' definitions and the mark. All names must be quotable."""
    return len(quoted(b"/".join(names))) + len(names) * _NUMBERS_BYTES + len(MARK)


def write_bundle_header(tree: Tree, bundle: Bundle, epoch: int, *, sparse_field: bool) -> None:
    """Write definitions and the mark into the reserved bytes of a bundle, and fill the rest with comments."""
    definitions = b"".join(file_definitions(tree, bundle.contents, epoch, sparse_field=sparse_field))
    unused = bundle.start - len(definitions) - len(MARK)
    if unused < 0:
        raise AssertionError(f"{bundle.file.name} reserves {-unused} bytes too few for its definitions")
    whole, rest = divmod(unused, len(_COMMENT))
    fill_start(bundle.file, definitions + _COMMENT * whole + (b"#" * (rest - 1) + b"\n" if rest else b"") + MARK)


def read_header(stream: BinaryIO, *, lines: int) -> bytes:
    """Return the header of a pseudo file: the given number of lines before the mark.

    The lines are counted, since the target of a symlink is not quoted and may look like the mark. Raises ToolFailed if
    the mark does not follow.
    """
    header = list(islice(iter(partial(stream.readline, _LONGEST_LINE), b""), lines))
    if stream.read(len(MARK)) != MARK:
        raise ToolFailed("the names from unsquashfs differ from the expected names", hint=HINT)
    return b"".join(header)


def unescaped(text: bytes) -> bytes:
    """Return a name from a definition without its escapes."""
    return _ESCAPE.sub(rb"\1", text)


def read_definition(header: bytes, start: int) -> Definition | None:
    """Return the definition that starts at an offset of the header, or None."""
    match = _DEFINITION.match(header, start)
    if match is None:
        return None
    name = unescaped(match[1]) if b"\\" in match[1] else match[1]
    attributes = match.group(2, 3, 4, 5, 6)
    if attributes[0] != b"R" or match[7] is None:
        return Definition(name, attributes, None, None, match.end(1), match.end(6))
    return Definition(name, attributes, int(match[7]), int(match[8]), match.end(1), match.end())
