"""Runs mksquashfs so that the same tree gives the same bytes, quickly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from uenvtool import tools
from uenvtool.errors import ToolFailed
from uenvtool.files import fill, fill_from, fill_start, link
from uenvtool.image.programs import ONE_TIME, Programs
from uenvtool.image.tree import CACHES, PROGRAM_MODE, Tree

EPOCH = 315532800
"""1980-01-01, the earliest time that a ZIP archive can hold: tools that zip packages up need it."""
ZSTD_LEVEL, GZIP_LEVEL = "2", "3"
BLOCK = "256K"
MEMORY = "512M"
"""For mksquashfs's queues. Its own choice, a quarter of the machine's, is slower: fresh pages for every block."""
COPY_BYTES = 1 << 17
MARK = b"#\n# START OF DATA - DO NOT MODIFY\n#\n"
_ESCAPED = re.compile(rb"[ \t\v\f\"\\'#]")
_WILD = frozenset(b"*?[]\\!@+()")


def write_image(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int) -> None:
    """Write the tree into a new squashfs file. Raises ToolFailed where mksquashfs does."""
    words = [programs.mksquashfs]
    if programs.pseudo_data:
        words += [str(tree.folder), str(image), *_options(programs, epoch), *_without(tree, scratch)]
        for file in pseudo_files(tree, programs, epoch, scratch):
            words += ["-pf", str(file)]
    else:
        stage(tree, scratch / "tree")
        words += [str(scratch / "tree"), str(image), *_options(programs, epoch)]
    completed = tools.run(words, env=_environ())
    if completed.code != 0 or not image.is_file():
        why = _reason(completed)
        hint = "free space, or choose another place; the old image, if any, is as it was"
        raise ToolFailed(f"mksquashfs failed: {why}", hint=hint)


def _options(programs: Programs, epoch: int) -> list[str]:
    """What makes it quick, and the same each time; only what this mksquashfs knows."""
    level = ZSTD_LEVEL if programs.compression == "zstd" else GZIP_LEVEL
    words = ["-noappend", "-no-progress", "-no-recovery", "-all-root", "-no-xattrs", "-no-exports", "-no-hardlinks"]
    options = [word for word in words if programs.has(word)]
    if programs.has("-mem"):
        options += ["-mem", MEMORY]
    if programs.has("-quiet"):
        options.append("-quiet")
    options += ["-comp", programs.compression, "-Xcompression-level", level, "-b", BLOCK]
    options += ["-action", "chmod(u=rwX,go=rX)@type(f)||type(d)"]
    options += ["-action", "fragment(imported)@name(*.pyc)"]  # not in one block with what no import reads
    return options + _times(programs, epoch)


def _times(programs: Programs, epoch: int) -> list[str]:
    """The options that give the image and all in it one time; -repro-time of 4.7 leaves earlier times alone."""
    options = [option for option in ("-mkfs-time", *ONE_TIME) if programs.has(option)]
    found = [word for option in options for word in (option, str(epoch))]
    return found + (["-reproducible"] if programs.has("-reproducible") else [])


def _environ() -> dict[str, str]:
    """Without SOURCE_DATE_EPOCH, which mksquashfs refuses beside a time that is given as an option."""
    return {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}


def _reason(completed: tools.Completed) -> str:
    lines = [line.strip() for line in (completed.stderr + "\n" + completed.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line or "FATAL" in line or "ailed" in line or "space" in line]
    return "; ".join(errors[:2]) or (lines[-1] if lines else f"exit code {completed.code}")


def _without(tree: Tree, scratch: Path) -> list[str]:
    """The options that leave out caches, and the names that are not taken or replaced."""
    names = [*sorted(tree.left_out), *sorted(name for name in tree.added if name in tree.entries)]
    lines = [b"... " + CACHES, *map(_pattern, names)]
    fill(scratch, {"without": b"".join(line + b"\n" for line in lines)})
    return ["-wildcards", "-ef", str(scratch / "without")]


def _pattern(name: bytes) -> bytes:
    """A name as a pattern that matches it alone."""
    return b"".join(b"\\" + bytes([byte]) if byte in _WILD else bytes([byte]) for byte in name)


def pseudo_files(tree: Tree, programs: Programs, epoch: int, scratch: Path) -> list[Path]:
    """What to add, as files in mksquashfs's form: definitions, a mark, then contents.

    The contents of the parts stay where they are, behind the room that was left for their definitions.
    """
    folders = [b"%s D %d 755 0 0\n" % (pseudo_name(name), epoch) for name in tree.new_folders()]
    contents = [content for name, content in tree.new.items()]
    first = scratch / "added"
    fill_from(first, [*folders, *_definitions(tree, programs, epoch, tree.new), MARK, *contents])
    for part in tree.parts:
        definitions = b"".join(_definitions(tree, programs, epoch, part.pieces))
        left = part.start - len(definitions) - len(MARK)
        comments = (b"#" * 126 + b"\n") * (left // 127) + (b"#" * (left % 127))[1:] + b"\n"[: left % 127]
        fill_start(part.file, definitions + comments + MARK)
    return [first, *(part.file for part in tree.parts)]


def room(modules: Iterable[bytes]) -> int:
    """Bytes that the definitions of the modules' bytecode take at the most: names as they are there, and numbers."""
    return sum(len(pseudo_name(name)) + 160 for name in modules) + len(MARK)


def _definitions(tree: Tree, programs: Programs, epoch: int, names: Iterable[bytes]) -> Iterator[bytes]:
    """A line for each file, whose content follows that of the one before."""
    sparse = b" 0" if programs.pseudo_sparse else b""
    offset = 0
    for name in names:
        entry = tree.expected[name]
        yield b"%s R %d %o 0 0 %d %d%s\n" % (pseudo_name(name), epoch, entry.mode, entry.size, offset, sparse)
        offset += entry.size


def pseudo_name(name: bytes) -> bytes:
    """A name as a definition has it."""
    return b"/" + _ESCAPED.sub(rb"\\\g<0>", name)


def stage(tree: Tree, target: Path) -> None:
    """The tree as files of their own, for a mksquashfs that takes no contents from a stream."""
    fill(target, {})
    for name in sorted(tree.expected):
        entry, path = tree.expected[name], target / os.fsdecode(name)
        if entry.kind == "d":
            path.mkdir(parents=True, exist_ok=True)
        elif entry.kind == "l":
            link(path, os.fsdecode(entry.target))
        else:
            fill_from(path, contents(tree, name, entry.size))
            path.chmod(0o755 if entry.mode == PROGRAM_MODE else 0o644)


def contents(tree: Tree, name: bytes, size: int) -> Iterator[bytes]:
    """What a file of so many bytes has to hold, in pieces; more where it has grown."""
    added = tree.added.get(name)
    if added is not None:
        yield bytes(added)
        return
    descriptor = os.open(tree.place(name), os.O_RDONLY | os.O_NOFOLLOW)
    try:
        while piece := os.read(descriptor, min(size + 1, COPY_BYTES)):
            yield piece
            if len(piece) == size < COPY_BYTES:  # one more was asked for: there is no more
                return
    finally:
        os.close(descriptor)


def usable(names: Sequence[bytes]) -> list[bytes]:
    """The names that mksquashfs's files of definitions can carry: those of one line."""
    return [name for name in names if b"\n" not in name and b"\r" not in name]
