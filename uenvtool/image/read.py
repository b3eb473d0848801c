"""Opens an image: what it is, the few files that describe it, and all of it unpacked into a new folder."""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool import files, tools
from uenvtool.errors import BadInput, ToolFailed
from uenvtool.image.metadata import PACKED
from uenvtool.image.programs import find_program

MAGIC = b"hsqs"
COMPRESSIONS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}
LARGEST_TEXT = 64 << 20
"""Bytes of a file that describes an image; a larger one is not ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Superblock:
    """The first bytes of a squashfs image.

    compression: by name. block, size: in bytes. names: how many there are. time: seconds since 1970.
    """

    compression: str
    block: int
    names: int
    time: int
    size: int


def superblock(image: Path) -> Superblock | None:
    """The first bytes of a squashfs image; None if the file is not one. Raises BadInput if it cannot be read.

    The layout is that of version 4.0 (Linux, fs/squashfs/squashfs_fs.h).
    """
    try:
        with open(image, "rb") as stream:
            head = stream.read(96)
            length = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise BadInput(f"cannot read {image}: {error.strerror}") from error
    if len(head) < 96 or head[:4] != MAGIC:
        return None
    names, time, block, _, compression = struct.unpack("<IIIIH", head[4:22])
    size = struct.unpack("<Q", head[40:48])[0]
    if size > length or struct.unpack("<HH", head[28:32]) != (4, 0):
        return None
    name = COMPRESSIONS.get(compression, str(compression))
    return Superblock(compression=name, block=block, names=names, time=time, size=size)


def read_texts(image: Path, names: Sequence[str]) -> dict[str, str]:
    """The text of those of these files below meta/ that the image holds. Raises BadInput if it is no image.

    Only regular files count, in real folders: what an image holds is not followed out of it.
    """
    _require_image(image)
    unsquashfs = find_program("unsquashfs")
    found = {}
    with files.working_folder(LARGEST_TEXT) as scratch:
        copy = scratch / "copy"
        _refuse_wrong_names(image, _names(unsquashfs, image, ["meta"]))
        tools.run([unsquashfs, "-no-progress", "-no-xattrs", "-d", copy, image, *names])
        for name in names:
            text = _text(copy, name)
            if text is not None:
                found[name] = text
    return found


def refuse_foreign(target: Path) -> None:
    """Raise BadInput if the target is something that this tool did not pack."""
    if not os.path.lexists(target):
        return
    hint = "choose another name, or remove it yourself"
    if target.is_symlink() or not target.is_file():
        raise BadInput(f"{target} is not a file", hint=hint)
    if superblock(target) is None or PACKED not in read_texts(target, [PACKED]):
        raise BadInput(f"{target} is not an image that uenvtool packed", hint=hint)


def unpack(image: Path, folder: Path, finish: Callable[[Path], None] = lambda _folder: None) -> None:
    """Unpack an image into a new folder, all or nothing.

    finish: what is still to be done in the unpacked folder before it gets its name. Raises BadInput if
    the folder exists (an empty one may), the file is no image, or the image has names that lead
    outside, names twice, or devices; ToolMissing without unsquashfs; ToolFailed if the disk is full.
    The folder is then as it was.
    """
    _require_image(image)
    unsquashfs = find_program("unsquashfs")
    target = Path(os.path.abspath(folder))
    if os.path.islink(target) or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise BadInput(f"{folder} exists", hint="name a folder that does not exist yet")
    _refuse_wrong_names(image, _names(unsquashfs, image, []))
    with files.workplace(target) as work:
        new = work / "new"
        completed = tools.run([unsquashfs, "-no-progress", "-no-xattrs", "-d", new, image])
        if completed.code != 0 or not new.is_dir():
            lines = [line for line in completed.stderr.splitlines() if line.strip()]
            why = lines[0] if lines else f"exit code {completed.code}"
            raise ToolFailed(f"unsquashfs failed: {why}", hint="nothing was unpacked; free space, or check the image")
        _refuse_devices(image, new)
        _writable(new)
        finish(new)
        if target.is_dir():
            target.rmdir()
        files.publish([files.Replacement(new=new, target=target)])


def _require_image(image: Path) -> None:
    if superblock(image) is None:
        raise BadInput(f"{image} is not a squashfs image, or is cut short")


def _names(unsquashfs: str, image: Path, below: Sequence[str]) -> list[str]:
    """Every name in the image, as unsquashfs lists them; nothing is written.

    A name that ends in a line break looks like two: such an image is refused, which is the safe side.
    """
    completed = tools.run([unsquashfs, "-l", "-d", "", image, *below])
    if completed.code != 0:
        why = (completed.stderr.strip() or "no reason is given").splitlines()[-1]
        raise BadInput(f"{image} cannot be read: {why}")
    names: list[str] = []
    for line in completed.stdout[completed.stdout.find("\n/") + 1 :].split("\n"):
        if line.startswith("/") or not names:
            names.append(line)
        else:  # a name with a line break in it
            names[-1] += f"\n{line}"
    return names


def _refuse_wrong_names(image: Path, names: Sequence[str]) -> None:
    """Refuse names that old versions of unsquashfs follow outside (CVE-2021-40153, CVE-2021-41072)."""
    seen: set[str] = set()
    for name in names:
        if re.search(r"(^|/)\.\.(/|$)", name) or name in seen:
            raise BadInput(f"{image} has the name {name!r} twice, or it leads outside; it is not unpacked")
        seen.add(name)


def _refuse_devices(image: Path, folder: Path) -> None:
    for path, status in _below(folder):
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise BadInput(f"{image} holds a device or socket, {path.name}; it is not unpacked")


def _writable(folder: Path) -> None:
    """Let the owner change what was read-only, and nobody run anything as another user."""
    files.set_modes((path, (status.st_mode | 0o200) & 0o777) for path, status in _below(folder))


def _below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for here, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(here, name)
            yield path, path.lstat()


def _text(root: Path, name: str) -> str | None:
    """A regular file's text, where no part of its name is a symlink."""
    path = root
    for part in name.split("/"):
        path = path / part
        if path.is_symlink():
            return None
    if not path.is_file() or path.stat().st_size > LARGEST_TEXT:
        return None
    return path.read_text(encoding="utf-8", errors="surrogateescape")
