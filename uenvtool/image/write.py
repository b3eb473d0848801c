"""Runs mksquashfs so that the same tree gives the same bytes, quickly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from uenvtool.core import tools
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill, fill_from, link, make_folder, set_mode
from uenvtool.image.programs import ONE_TIME, Programs
from uenvtool.image.pseudo import pattern, write_pseudo_files
from uenvtool.image.tree import PROGRAM_MODE, Tree

EPOCH = 315532800
"""1980-01-01, the earliest time that a ZIP archive can hold: tools that zip packages up need it."""
ZSTD_LEVEL, GZIP_LEVEL = "2", "3"
BLOCK = "256K"
MEMORY = "512M"
"""For mksquashfs's queues. Its own choice, a quarter of the machine's, is slower: fresh pages for every block."""
COPY_BYTES = 1 << 17


def write_image(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int) -> None:
    """Write the tree into a new squashfs file; epoch: the time of everything in it, in seconds since 1970.

    Raises BadInput if a name cannot be put in or left out, ToolFailed if mksquashfs or the disk fails.
    """
    words: list[str | Path] = [programs.mksquashfs]
    if programs.pseudo_data:
        words += [tree.folder, image, *options(programs, epoch), *_exclusions(tree, scratch)]
        for file in write_pseudo_files(tree, programs, epoch, scratch):
            words += ["-pf", file]
    else:
        stage(tree, scratch / "tree")
        words += [scratch / "tree", image, *options(programs, epoch)]
    completed = tools.run(words, env=_environ())
    if completed.code != 0 or not image.is_file():
        hint = "free space, or choose another place; the old image, if any, is as it was"
        raise ToolFailed(f"mksquashfs failed: {_reason(completed)}", hint=hint)


def options(programs: Programs, epoch: int) -> list[str]:
    """What makes it quick, and the same each time; only what this mksquashfs knows."""
    level = ZSTD_LEVEL if programs.compression == "zstd" else GZIP_LEVEL
    words = ["-noappend", "-no-progress", "-no-recovery", "-all-root", "-no-xattrs", "-no-exports", "-no-hardlinks"]
    found = [word for word in words if programs.has(word)]
    if programs.has("-mem"):
        found += ["-mem", MEMORY]
    if programs.has("-quiet"):
        found.append("-quiet")
    found += ["-comp", programs.compression, "-Xcompression-level", level, "-b", BLOCK]
    found += ["-action", "chmod(u=rwX,go=rX)@type(f)||type(d)"]
    found += ["-action", "fragment(imported)@name(*.pyc)"]  # not in one block with what no import reads
    return found + _times(programs, epoch)


def _times(programs: Programs, epoch: int) -> list[str]:
    """The options that give the image and all in it one time; -repro-time of 4.7 leaves earlier times alone."""
    options = [option for option in ("-mkfs-time", *ONE_TIME) if programs.has(option)]
    found = [word for option in options for word in (option, str(epoch))]
    return found + (["-reproducible"] if programs.has("-reproducible") else [])


def _environ() -> dict[str, str]:
    """Without SOURCE_DATE_EPOCH, which mksquashfs refuses beside a time that is given as an option.

    In the C locale a pattern matches bytes, whatever the encoding of the user's terminal.
    """
    kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    return {**kept, "LC_ALL": "C"}


def _reason(completed: tools.Completed) -> str:
    lines = [line.strip() for line in (completed.stderr + "\n" + completed.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line or "FATAL" in line or "ailed" in line or "space" in line]
    return "; ".join(errors[:2]) or (lines[-1] if lines else f"exit code {completed.code}")


def _exclusions(tree: Tree, scratch: Path) -> list[str | Path]:
    """The options that leave out the names that are not taken, or are replaced."""
    names = [*sorted(tree.left_out), *sorted(name for name in tree.contents if tree.replaced(name))]
    lines = [*(b"... " + name for name in sorted(tree.skipped)), *map(pattern, names)]
    fill(scratch, {"excluded": b"".join(line + b"\n" for line in lines)})
    return ["-wildcards", "-ef", scratch / "excluded"]


def stage(tree: Tree, target: Path) -> None:
    """The tree as files of their own, for a mksquashfs that takes no contents from a stream."""
    fill(target, {})
    for name in sorted(tree.expected):
        entry, path = tree.expected[name], target / os.fsdecode(name)
        if entry.kind == "d":
            make_folder(path)
        elif entry.kind == "l":
            link(path, os.fsdecode(entry.target))
        else:
            fill_from(path, file_content(tree, name, entry.size))
            set_mode(path, 0o755 if entry.mode == PROGRAM_MODE else 0o644)


def file_content(tree: Tree, name: bytes, size: int) -> Iterator[bytes]:
    """What a file of so many bytes has to hold, in pieces; more than that if it has grown."""
    added = tree.contents.get(name)
    if added is not None:
        yield bytes(added)
        return
    descriptor = os.open(tree.path_of(name), os.O_RDONLY | os.O_NOFOLLOW)
    try:
        while piece := os.read(descriptor, min(size + 1, COPY_BYTES)):
            yield piece
            if len(piece) == size < COPY_BYTES:  # a read of one byte more gave no more
                return
    finally:
        os.close(descriptor)
