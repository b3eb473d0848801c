"""Runs mksquashfs so that the same tree gives the same bytes, quickly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from uenvtool.core import processes
from uenvtool.core.errors import ToolFailed
from uenvtool.core.files import fill
from uenvtool.image.programs import Programs
from uenvtool.image.pseudo import pattern, write_pseudo_files
from uenvtool.image.tree import Tree

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
    words: list[str | Path] = [programs.mksquashfs, tree.folder, image, *options(programs, epoch)]
    words += _exclusions(tree, scratch)
    for file in write_pseudo_files(tree, programs, epoch, scratch):
        words += ["-pf", file]
    completed = processes.run(words, env=_environ())
    if completed.code != 0 or not image.is_file():
        reason = _reason(completed)
        remedy = "free space, or choose another place; " if "space" in reason or "quota" in reason else ""
        raise ToolFailed(f"mksquashfs failed: {reason}", hint=f"{remedy}the old image, if any, is as it was")


def options(programs: Programs, epoch: int) -> list[str]:
    """Return what makes mksquashfs quick, and its image the same each time."""
    level = ZSTD_LEVEL if programs.compression == "zstd" else GZIP_LEVEL
    found = ["-noappend", "-no-progress", "-no-recovery", "-all-root", "-no-xattrs", "-no-exports", "-no-hardlinks"]
    found += ["-quiet", "-mem", MEMORY]
    found += ["-comp", programs.compression, "-Xcompression-level", level, "-b", BLOCK]
    found += ["-action", "chmod(u=rwX,go=rX)@type(f)||type(d)"]
    found += ["-action", "fragment(imported)@name(*.pyc)"]  # not in one block with what no import reads
    return [*found, "-mkfs-time", str(epoch), programs.time_option, str(epoch), "-reproducible"]


def _environ() -> dict[str, str]:
    """Return without SOURCE_DATE_EPOCH, which mksquashfs refuses beside a time that is given as an option.

    In the C locale a pattern matches bytes, whatever the encoding of the user's terminal.
    """
    kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    return {**kept, "LC_ALL": "C"}


def _reason(completed: processes.Completed) -> str:
    lines = [line.strip() for line in (completed.stderr + "\n" + completed.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line or "FATAL" in line or "ailed" in line or "space" in line]
    return "; ".join(errors[:2]) or (lines[-1] if lines else f"exit code {completed.code}")


def _exclusions(tree: Tree, scratch: Path) -> list[str | Path]:
    """Return the options that leave out the names that are not taken, or are replaced."""
    names = [*sorted(tree.left_out), *sorted(name for name in tree.contents if tree.replaced(name))]
    lines = [*(b"... " + name for name in sorted(tree.skipped)), *map(pattern, names)]
    fill(scratch, {"excluded": b"".join(line + b"\n" for line in lines)})
    return ["-wildcards", "-ef", scratch / "excluded"]


def file_content(tree: Tree, name: bytes, size: int) -> Iterator[bytes]:
    """Yield what a file of so many bytes has to hold, in pieces; more than that if it has grown."""
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
