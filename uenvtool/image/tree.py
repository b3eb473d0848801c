"""Describes a tree to pack: the files, directories and symlinks of a directory, with additions and exclusions."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed

EPOCH = 315532800
"""1980-01-01, the earliest time in a ZIP archive. Tools that zip installed packages fail with an earlier time."""
FOLDER_MODE, FILE_MODE, PROGRAM_MODE, SYMLINK_MODE = 0o755, 0o644, 0o755, 0o777
COPY_BYTES = 1 << 17


class Entry(NamedTuple):
    """An entry of an image. A tuple, since an image has many entries.

    kind: d (directory), f (file) or l (symlink). mode: the permissions in the image, whatever the umask is. size: the
    size of a file in bytes. target: the target of a symlink.
    """

    kind: str
    mode: int
    size: int = 0
    target: bytes = b""


FOLDER = Entry(kind="d", mode=FOLDER_MODE)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A directory to pack, and the differences between the directory and the image. Names are relative paths as bytes.

    entries: the entries to pack from the directory.
    added: the contents of files to add or replace.
    left_out: names that `entries` does not contain.
    skipped: base names of directories that `entries` does not contain.
    """

    folder: Path
    entries: Mapping[bytes, Entry]
    added: Mapping[bytes, bytes | memoryview] = field(default_factory=dict)
    left_out: Collection[bytes] = ()
    skipped: Collection[bytes] = ()

    @cached_property
    def expected(self) -> dict[bytes, Entry]:
        """All entries that the image must contain."""
        added = {name: self.added_entry(name) for name in self.added}
        return {**self.entries, **added, **dict.fromkeys(self.added_folders(), FOLDER)}

    def added_entry(self, name: bytes) -> Entry:
        """Return the entry of an added file. It has the mode of the file that it replaces."""
        old = self.entries.get(name)
        mode = old.mode if old and old.kind == "f" else FILE_MODE
        return Entry(kind="f", mode=mode, size=len(self.added[name]))

    def added_folders(self) -> list[bytes]:
        """Return the directories that exist only because of added files, outermost first."""
        needed: set[bytes] = set()
        for name in self.added:
            for parent in parents(name):
                if parent in needed:
                    break  # its parents are already in `needed`
                needed.add(parent)
        return sorted(name for name in needed if name not in self.entries)


def file_content(tree: Tree, name: bytes) -> Iterator[bytes]:
    """Yield the expected content of a file in pieces."""
    added = tree.added.get(name)
    if added is not None:
        yield bytes(added)
        return
    descriptor = os.open(os.fsencode(tree.folder) + b"/" + name, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        while piece := os.read(descriptor, COPY_BYTES):
            yield piece
    finally:
        os.close(descriptor)


def parents(name: bytes) -> Iterator[bytes]:
    """Yield the parent directories of a name, innermost first."""
    parent = os.path.dirname(name)
    while parent:
        yield parent
        parent = os.path.dirname(parent)


def walk(directory: Path, *, left_out: Collection[bytes] = (), skipped: Collection[bytes] = ()) -> dict[bytes, Entry]:
    """Return the entries below a directory, except names in `left_out` and base names in `skipped`.

    Raises BadInput for a device, pipe or socket, ToolFailed if a directory or file cannot be read.
    """
    entries: dict[bytes, Entry] = {}
    waiting = [b""]
    root = os.fsencode(directory)
    try:
        while waiting:
            if processes.is_interrupted():  # threads get no KeyboardInterrupt
                raise KeyboardInterrupt
            parent = waiting.pop()
            with os.scandir(root + b"/" + parent) as children:
                for child in children:
                    name = parent + b"/" + child.name if parent else child.name
                    if child.name in skipped or name in left_out:
                        continue
                    entries[name] = _entry(child, name)
                    if entries[name].kind == "d":
                        waiting.append(name)
    except OSError as error:
        raise ToolFailed(f"cannot read {os.fsdecode(error.filename or directory)}: {error.strerror}") from error
    return entries


def _entry(child: os.DirEntry[bytes], name: bytes) -> Entry:
    if child.is_symlink():  # only files need a stat call, since scandir knows symlinks and directories
        return Entry(kind="l", mode=SYMLINK_MODE, target=os.readlink(child.path))
    if child.is_dir(follow_symlinks=False):
        return FOLDER
    if child.is_file(follow_symlinks=False):
        status = child.stat(follow_symlinks=False)
        return Entry(kind="f", mode=PROGRAM_MODE if status.st_mode & 0o111 else FILE_MODE, size=status.st_size)
    hint = "remove it, then pack again"
    raise BadInput(f"{os.fsdecode(name)!r} is not a file, a directory or a symlink", hint=hint)
