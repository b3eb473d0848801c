"""The pseudo files of squashfs-tools: what is put into an image beside a folder, and what is read back from one.

Such a file has one definition a line, a mark, and then the contents of the files that it defines
(squashfs-tools 4.5 and later, `-pf`). mksquashfs reads them, unsquashfs writes them. A definition can
also make mksquashfs run a command (`NAME f MODE UID GID COMMAND`), so that a name must never end its line.
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
"""The most that a definition takes beside its name: six numbers, their blanks, a letter and a line break."""
_LONGEST_LINE = 1 << 16
"""Bytes; a name and a symlink's target have at most 4096 each, and each byte of a name may be escaped."""
HINT = "pack it again, and check the disk if it fails again"
_COMMENT = b"#" * 126 + b"\n"
_ESCAPED = re.compile(rb"[\s\"\\]")
"""What ends a name or is a quote of its own: blanks of C's isspace, quotes, backslashes (4.5.1, pseudo.c)."""
_SPECIAL = re.compile(rb"[^\w/]")
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_DEFINITION = re.compile(
    rb"((?:\\.|[^\\ ])+) ([A-Za-z]) (\d+) ([0-7]+) (\d+) (\d+)(?: (\d+) (\d+)( \d+)?(?=\n))?", re.DOTALL
)
"""Name, kind, time, mode, owner, group; of a file also its size, its offset, and whether it is sparse."""


class Definition(NamedTuple):
    """One definition as it was read.

    name: relative, `/` for the image's root. attributes: kind, time, mode, owner and group as text.
    size, offset: of a file's content behind the mark, in bytes. start: where its name ends. end: where its
    text ends: a symlink's target, which nothing quotes, begins there.
    """

    name: bytes
    attributes: tuple[bytes, ...]
    size: int | None
    offset: int | None
    start: int
    end: int


def is_quotable(name: bytes) -> bool:
    """Tell whether a line of squashfs-tools can hold this name: nothing quotes a line break there."""
    return b"\n" not in name


def quoted(name: bytes) -> bytes:
    """Return a relative name as a definition has it. Raises BadInput if no line can hold it."""
    return b"/" + _ESCAPED.sub(rb"\\\g<0>", _one_line(name))


def pattern(name: bytes) -> bytes:
    """Return a relative name as a line of a list of patterns (`-wildcards -ef`) that matches it alone.

    The first backslash of a line is taken off, so that no line begins with a blank, a comment or the
    `... ` of a pattern for all folders. Raises BadInput if no line can hold the name.
    """
    return b"\\" + _SPECIAL.sub(rb"\\\g<0>", _one_line(name))


def _one_line(name: bytes) -> bytes:
    if not is_quotable(name):
        hint = "rename it, or remove it, then pack again"
        raise BadInput(f"{os.fsdecode(name)!r} has a line break in its name, which mksquashfs cannot take", hint=hint)
    return name


def write_pseudo_files(tree: Tree, programs: Programs, epoch: int, scratch: Path) -> list[Path]:
    """Write what is put into a tree as pseudo files; the contents of bundles stay in the bundles' own files.

    epoch: the time of each file, in seconds since 1970. Raises BadInput if a name cannot be quoted.
    """
    first = scratch / "added"
    folders = [b"%b D %d 755 0 0\n" % (quoted(name), epoch) for name in tree.added_folders()]
    definitions = file_definitions(tree, tree.added, epoch, sparse_field=programs.sparse_field)
    fill_from(first, [*folders, *definitions, MARK, *tree.added.values()])
    for bundle in tree.bundles:
        write_bundle_header(tree, bundle, epoch, sparse_field=programs.sparse_field)
    return [first, *(bundle.file for bundle in tree.bundles)]


def file_definitions(tree: Tree, names: Iterable[bytes], epoch: int, *, sparse_field: bool) -> Iterator[bytes]:
    """Yield a definition for each of these files of a tree; their contents follow each other."""
    end = b" 0\n" if sparse_field else b"\n"
    offset = 0
    for name in names:
        entry = tree.put_in(name)
        yield b"%b R %d %o 0 0 %d %d%b" % (quoted(name), epoch, entry.mode, entry.size, offset, end)
        offset += entry.size


def header_bytes(names: Sequence[bytes]) -> int:
    """Return the most bytes that the definitions of these files take, with the mark; all these names are quotable."""
    return len(quoted(b"/".join(names))) + len(names) * _NUMBERS_BYTES + len(MARK)


def write_bundle_header(tree: Tree, bundle: Bundle, epoch: int, *, sparse_field: bool) -> None:
    """Write definitions, comments and the mark into the bytes that a bundle keeps for them, exactly as many."""
    definitions = b"".join(file_definitions(tree, bundle.contents, epoch, sparse_field=sparse_field))
    unused = bundle.start - len(definitions) - len(MARK)
    if unused < 0:
        raise AssertionError(f"{bundle.file.name} keeps {-unused} bytes too few for its definitions")
    whole, rest = divmod(unused, len(_COMMENT))
    fill_start(bundle.file, definitions + _COMMENT * whole + (b"#" * (rest - 1) + b"\n" if rest else b"") + MARK)


def read_header(stream: BinaryIO, *, lines: int) -> bytes:
    """Return everything before the mark of a pseudo file that has so many lines.

    The lines are counted, since what a symlink points at is not quoted and may look like the mark.
    Raises ToolFailed if there is no mark behind them.
    """
    found = list(islice(iter(partial(stream.readline, _LONGEST_LINE), b""), lines))
    if stream.read(len(MARK)) != MARK:
        raise ToolFailed("unsquashfs gives other names than the image should have", hint=HINT)
    return b"".join(found)


def unescaped(text: bytes) -> bytes:
    """Return the name that a definition has escaped."""
    return _ESCAPE.sub(rb"\1", text)


def read_definition(header: bytes, start: int) -> Definition | None:
    """Return the definition that begins at a byte of the header; None if none does."""
    match = _DEFINITION.match(header, start)
    if match is None:
        return None
    name = unescaped(match[1]) if b"\\" in match[1] else match[1]
    attributes = match.group(2, 3, 4, 5, 6)
    if attributes[0] != b"R" or match[7] is None:
        return Definition(name, attributes, None, None, match.end(1), match.end(6))
    return Definition(name, attributes, int(match[7]), int(match[8]), match.end(1), match.end())
