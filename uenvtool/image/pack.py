"""Packs a tree into an image, syncs it to disk, and reads it back to compare every name, mode, time and byte."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from uenvtool.core import files, processes
from uenvtool.core.errors import ToolFailed
from uenvtool.image.programs import Programs
from uenvtool.image.pseudo import pattern, read_definition, read_header, write_pseudo_file
from uenvtool.image.tree import EPOCH, FOLDER, Entry, Tree, file_content

ZSTD_LEVEL, GZIP_LEVEL = "2", "3"
BLOCK = "256K"
MEMORY = "512M"
"""The size of mksquashfs's queues. The default, a quarter of the memory, is slower, since each block uses new pages."""
_QUEUES = ("-da", "32", "-fr", "32")
"""The block caches of unsquashfs in MiB. The default, 256 MiB each, is slower, since each block uses new pages."""
_KINDS = {"d": b"D", "f": b"R", "l": b"S"}
"""The letter of a definition for each kind of entry."""
_HINT = "pack the image again, and check the disk if it fails again; an existing image is unchanged"


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """An image that was written, compared with its tree, and synced to disk. bytes: the size of the file."""

    path: Path
    bytes: int
    sha256: str
    compression: str


def pack(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int | None = None) -> Packed:
    """Write a tree into a new image, and read it back. The same tree and epoch give the same bytes.

    epoch: the time of every entry, in seconds since 1970. The mode of the file follows the user's umask. Raises
    BadInput if a name cannot be packed, ToolFailed if mksquashfs, unsquashfs or the disk fails, or if the image differs
    from the tree.
    """
    epoch = EPOCH if epoch is None else epoch
    write(programs, tree, image, scratch, epoch)
    with ThreadPoolExecutor(2) as pool:
        synced, digest = pool.submit(files.sync, image), pool.submit(_sha256, image)
        read_back(programs, image, tree, epoch)
        synced.result()
        sha256 = digest.result()
    files.set_shared_mode(image)
    return Packed(path=image, bytes=image.stat().st_size, sha256=sha256, compression=programs.compression)


def write(programs: Programs, tree: Tree, image: Path, scratch: Path, epoch: int) -> None:
    """Write an image. Raises BadInput if a name cannot be packed, ToolFailed if mksquashfs or the disk fails."""
    command: list[str | Path] = [programs.mksquashfs, tree.folder, image, *options(programs, epoch)]
    command += _exclusions(tree, scratch)
    command += ["-pf", write_pseudo_file(tree, programs, epoch, scratch)]
    # mksquashfs rejects SOURCE_DATE_EPOCH with a time option; in the C locale, its patterns match bytes
    env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    completed = processes.run(command, env={**env, "LC_ALL": "C"})
    if completed.code != 0 or not image.is_file():
        hint = "fix the cause and run the command again; an existing image is unchanged"
        failed = ToolFailed(f"mksquashfs failed: {_reason(completed)}", hint=hint)
        raise files.full_disk(image, completed.stderr) or failed


def options(programs: Programs, epoch: int) -> list[str]:
    """Return the mksquashfs options for a fast, reproducible image."""
    level = ZSTD_LEVEL if programs.compression == "zstd" else GZIP_LEVEL
    arguments = ["-noappend", "-no-progress", "-no-recovery", "-all-root", "-no-xattrs", "-no-exports", "-no-hardlinks"]
    arguments += ["-quiet", "-mem", MEMORY]
    arguments += ["-comp", programs.compression, "-Xcompression-level", level, "-b", BLOCK]
    arguments += ["-action", "chmod(u=rwX,go=rX)@type(f)||type(d)"]
    arguments += ["-action", "fragment(imported)@name(*.pyc)"]  # separate blocks from files that no import reads
    return [*arguments, "-mkfs-time", str(epoch), programs.time_option, str(epoch), "-reproducible"]


def _reason(completed: processes.Completed) -> str:
    lines = [line.strip() for line in (completed.stderr + "\n" + completed.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "rror" in line or "FATAL" in line or "ailed" in line or "space" in line]
    return "; ".join(errors[:2]) or (lines[-1] if lines else f"exit code {completed.code}")


def _exclusions(tree: Tree, scratch: Path) -> list[str | Path]:
    names = [*sorted(tree.left_out), *sorted(tree.added.keys() & tree.entries.keys())]
    lines = [*(b"... " + name for name in sorted(tree.skipped)), *map(pattern, names)]
    files.fill(scratch, {"excluded": b"".join(line + b"\n" for line in lines)})
    return ["-wildcards", "-ef", scratch / "excluded"]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise ToolFailed(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()


def read_back(programs: Programs, image: Path, tree: Tree, epoch: int) -> None:
    """Read an image completely and compare it with its tree. Raises ToolFailed if they differ."""
    command: list[str | Path] = [programs.unsquashfs, *_QUEUES, "-no-progress", "-quiet", "-pf", programs.stream, image]
    with processes.reading(command) as stream:
        header = _header(stream, tree)
        read = 0
        for name, offset, size in _compared_names(header, tree.expected, epoch) if header else ():
            if size:
                if offset != read:
                    raise _differs(name, "has another offset")
                _compare(stream, tree, name, size)
                read += size
    if not header:  # although unsquashfs reported no failure
        raise _not_packed("names differ")


def _header(stream: BinaryIO, tree: Tree) -> bytes:
    """Return the header with the names, or b"" if the stream ends early, so that unsquashfs can report the reason."""
    try:
        return read_header(stream, ((name, entry.target) for name, entry in tree.expected.items()))
    except ToolFailed as error:
        if not stream.read(1):
            return b""
        raise _not_packed("names differ") from error


def _compared_names(header: bytes, expected: Mapping[bytes, Entry], epoch: int) -> Iterator[tuple[bytes, int, int]]:
    """Compare each line with its expected bytes, and yield the name, offset and size of each file in stream order.

    Yields before all lines are compared, so that unsquashfs does not have to wait. No name can be missing, because the
    header has the expected number of lines, and each line has a different expected name.
    """
    seen: set[bytes] = set()
    start = 0
    while start < len(header):
        found = read_definition(header, start)
        if found is None:
            raise _differs(header[start : start + 80], "cannot be parsed")
        entry = FOLDER if found.name == b"/" else expected.get(found.name)
        if entry is None or found.name in seen:
            raise _differs(found.name, "is in the image but was not packed, or occurs twice")
        seen.add(found.name)
        attributes = (_KINDS[entry.kind], b"%d" % epoch, b"%o" % entry.mode, b"0", b"0")
        size = entry.size if entry.kind == "f" else None
        target = b" " + entry.target if entry.kind == "l" else b""
        if (found.attributes, found.size) != (attributes, size) or not header.startswith(target, found.end):
            raise _differs(found.name, "has another kind, mode, time, owner, size or target")
        end = found.end + len(target)
        if header[end : end + 1] != b"\n":
            raise _differs(found.name, "has another symlink target, or unexpected attributes")
        start = end + 1
        if found.offset is not None:
            yield found.name, found.offset, entry.size


def _compare(stream: BinaryIO, tree: Tree, name: bytes, size: int) -> None:
    read = 0
    try:
        for piece in file_content(tree, name):
            if stream.read(len(piece)) != piece:
                raise _differs(name, "has other content")
            read += len(piece)
    except OSError as error:
        raise ToolFailed(f"cannot read {os.fsdecode(error.filename or name)}: {error.strerror}", hint=_HINT) from error
    if read != size:
        raise _differs(name, "changed while it was packed")


def _differs(name: bytes, how: str) -> ToolFailed:
    return _not_packed(f"{os.fsdecode(name)!r} {how}")


def _not_packed(how: str) -> ToolFailed:
    return ToolFailed(f"the written image differs from the packed files: {how}", hint=_HINT)
