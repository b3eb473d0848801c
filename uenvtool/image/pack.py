"""Packs a tree into an image: written, read back, on disk. Who packs decides when it gets its name."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files, processes
from uenvtool.core.errors import ToolFailed
from uenvtool.image.programs import Programs
from uenvtool.image.pseudo import pattern, write_pseudo_files
from uenvtool.image.readback import read_back
from uenvtool.image.tree import EPOCH, Tree

ZSTD_LEVEL, GZIP_LEVEL = "2", "3"
BLOCK = "256K"
MEMORY = "512M"
"""For mksquashfs's queues. Its own choice, a quarter of the machine's, is slower: fresh pages for every block."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """An image that was written, compared with its tree, and put on disk.

    path: where it is, or will be. bytes: its size.
    """

    path: Path
    bytes: int
    sha256: str
    compression: str


def pack(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int | None = None) -> Packed:
    """Write a tree into a new image beside its final place (`files.workplace`), and read it back.

    epoch: the time of everything in it, in seconds since 1970. The same tree and epoch give the same bytes.
    The file has the mode that the user's umask gives to new ones.
    Raises BadInput if a name cannot be packed, ToolFailed if mksquashfs, unsquashfs or the disk fails, or
    if the image is not the tree.
    """
    epoch = EPOCH if epoch is None else epoch
    write(programs, tree, image, scratch, epoch)
    with ThreadPoolExecutor(2) as beside:
        on_disk, digest = beside.submit(files.sync, image), beside.submit(file_sha256, image)
        read_back(programs, image, tree, epoch)
        on_disk.result()
        sha256 = digest.result()
    files.set_shared_mode(image)
    return Packed(path=image, bytes=image.stat().st_size, sha256=sha256, compression=programs.compression)


def write(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int) -> None:
    """Write an image, and know afterwards all that it has to hold. Raises as `pack` does.

    mksquashfs looks through the folder on one processor before it begins, so that we can do so on another.
    """
    with ThreadPoolExecutor(1) as beside:
        expected = beside.submit(lambda: tree.expected)
        try:
            write_image(programs, tree, image, scratch, epoch)
        except ToolFailed:
            expected.result()  # if it cannot be read, or holds what no image should, that is the reason
            raise
        expected.result()


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
        failed = ToolFailed(f"mksquashfs failed: {reason}", hint="the old image, if any, is as it was")
        raise files.full_disk(image, completed.stderr) or failed


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
    files.fill(scratch, {"excluded": b"".join(line + b"\n" for line in lines)})
    return ["-wildcards", "-ef", scratch / "excluded"]


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content. Raises ToolFailed if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise ToolFailed(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()
