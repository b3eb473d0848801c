"""Packs a tree into an image, reads it back, and syncs it to disk. The caller publishes it under its final name."""

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
"""The size of mksquashfs's queues. Its default, a quarter of the memory, is slower: each block uses fresh pages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """An image that was written, compared with its tree, and synced to disk.

    path: the path that it was written to. bytes: its size.
    """

    path: Path
    bytes: int
    sha256: str
    compression: str


def pack(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int | None = None) -> Packed:
    """Write a tree into a new image next to its final path (`files.workplace`), and read it back.

    epoch: the time of every entry, in seconds since 1970. The same tree and epoch give the same bytes. The mode of the
    file follows the user's umask. Raises BadInput if a name cannot be packed, ToolFailed if mksquashfs, unsquashfs or
    the disk fails, or if the image differs from the tree.
    """
    epoch = EPOCH if epoch is None else epoch
    write(programs, tree, image, scratch, epoch)
    with ThreadPoolExecutor(2) as pool:
        synced, digest = pool.submit(files.sync, image), pool.submit(file_sha256, image)
        read_back(programs, image, tree, epoch)
        synced.result()
        sha256 = digest.result()
    files.set_shared_mode(image)
    return Packed(path=image, bytes=image.stat().st_size, sha256=sha256, compression=programs.compression)


def write(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int) -> None:
    """Write an image, and compute its expected entries in parallel. Raises the same errors as `pack`.

    mksquashfs scans the directory with one thread before it starts, so another CPU can compute the entries.
    """
    with ThreadPoolExecutor(1) as pool:
        expected = pool.submit(lambda: tree.expected)
        try:
            write_image(programs, tree, image, scratch, epoch)
        except ToolFailed:
            expected.result()  # raises the cause if the tree cannot be read, or has entries that no image may have
            raise
        expected.result()


def write_image(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int) -> None:
    """Write the tree into a new squashfs file. epoch: the time of every entry, in seconds since 1970.

    Raises BadInput if a name cannot be added or left out, ToolFailed if mksquashfs or the disk fails.
    """
    command: list[str | Path] = [programs.mksquashfs, tree.folder, image, *options(programs, epoch)]
    command += _exclusions(tree, scratch)
    for file in write_pseudo_files(tree, programs, epoch, scratch):
        command += ["-pf", file]
    completed = processes.run(command, env=_environ())
    if completed.code != 0 or not image.is_file():
        hint = "fix the cause and run the command again; an existing image is unchanged"
        failed = ToolFailed(f"mksquashfs failed: {_reason(completed)}", hint=hint)
        raise files.full_disk(image, completed.stderr) or failed


def options(programs: Programs, epoch: int) -> list[str]:
    """Return the options that make mksquashfs fast and its image reproducible."""
    level = ZSTD_LEVEL if programs.compression == "zstd" else GZIP_LEVEL
    arguments = ["-noappend", "-no-progress", "-no-recovery", "-all-root", "-no-xattrs", "-no-exports", "-no-hardlinks"]
    arguments += ["-quiet", "-mem", MEMORY]
    arguments += ["-comp", programs.compression, "-Xcompression-level", level, "-b", BLOCK]
    arguments += ["-action", "chmod(u=rwX,go=rX)@type(f)||type(d)"]
    arguments += ["-action", "fragment(imported)@name(*.pyc)"]  # separate blocks from files that no import reads
    return [*arguments, "-mkfs-time", str(epoch), programs.time_option, str(epoch), "-reproducible"]


def _environ() -> dict[str, str]:
    """Return the environment variables of mksquashfs.

    mksquashfs rejects SOURCE_DATE_EPOCH together with a time option. In the C locale, patterns match bytes, whatever
    the encoding of the user's terminal is.
    """
    kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    return {**kept, "LC_ALL": "C"}


def _reason(completed: processes.Completed) -> str:
    lines = [line.strip() for line in (completed.stderr + "\n" + completed.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line or "FATAL" in line or "ailed" in line or "space" in line]
    return "; ".join(errors[:2]) or (lines[-1] if lines else f"exit code {completed.code}")


def _exclusions(tree: Tree, scratch: Path) -> list[str | Path]:
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
