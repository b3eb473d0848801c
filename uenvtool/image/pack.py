"""Packs a tree into an image: written, read back, on disk. Who packs decides when it gets its name."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core import files
from uenvtool.core.errors import ToolFailed
from uenvtool.image.programs import Programs
from uenvtool.image.readback import read_back
from uenvtool.image.tree import Tree
from uenvtool.image.write import EPOCH, write_image


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
