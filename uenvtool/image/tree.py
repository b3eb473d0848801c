"""What will be in an image: every file, folder and symlink of a tree, and what is put in or left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from uenvtool.errors import BadInput, ToolFailed

CACHES = b"__pycache__"
FOLDER_MODE, FILE_MODE, PROGRAM_MODE = 0o755, 0o644, 0o755


@dataclass(frozen=True, slots=True)
class Entry:
    """One name. kind: d, f or l; mode: as in the image, whatever the umask was; target: a symlink's."""

    kind: str
    mode: int
    size: int = 0
    target: bytes = b""


@dataclass(frozen=True, slots=True)
class Part:
    """A file with the contents of others: by name, in the order in which they lie in it from the byte `start` on."""

    file: Path
    start: int
    pieces: Mapping[bytes, memoryview]


@dataclass(frozen=True)
class Tree:
    """A folder and what differs from it in the image; names are bytes, relative, as the kernel has them.

    entries: what is taken from the folder; new: what is put in, with its content; parts: more of it;
    left_out: the names that are not taken.
    """

    folder: Path
    entries: Mapping[bytes, Entry]
    new: Mapping[bytes, bytes] = field(default_factory=dict)
    parts: Sequence[Part] = ()
    left_out: Collection[bytes] = ()

    @cached_property
    def added(self) -> dict[bytes, bytes | memoryview]:
        """All that is put in, in the order in which its contents are written."""
        found: dict[bytes, bytes | memoryview] = dict(self.new)
        for part in self.parts:
            found.update(part.pieces)
        return found

    @cached_property
    def expected(self) -> dict[bytes, Entry]:
        """Everything that the image has to hold."""
        found = {name: entry for name, entry in self.entries.items() if name not in self.added}
        for name, content in self.added.items():
            old = self.entries.get(name)
            found[name] = Entry("f", old.mode if old else FILE_MODE, len(content))
        for parent in self.new_folders():
            found[parent] = Entry("d", FOLDER_MODE)
        return found

    def place(self, name: bytes) -> bytes:
        """Where an entry of the folder lies."""
        return os.fsencode(self.folder) + b"/" + name

    def new_folders(self) -> list[bytes]:
        """The folders that only what is added needs, outermost first."""
        needed: set[bytes] = set()
        for name in self.added:
            for parent in parents(name):
                if parent in needed:
                    break  # and so are those above it
                needed.add(parent)
        return sorted(needed - self.entries.keys())


def parents(name: bytes) -> Iterator[bytes]:
    """The folders above a name, innermost first."""
    parent = os.path.dirname(name)
    while parent:
        yield parent
        parent = os.path.dirname(parent)


def walk(folder: Path, left_out: Collection[bytes] = ()) -> dict[bytes, Entry]:
    """Everything below a folder but caches of bytecode and what is left out.

    Raises BadInput where it holds what no image of packages should (a device, a socket), or what
    cannot be read.
    """
    found: dict[bytes, Entry] = {}
    waiting = [b""]
    root = os.fsencode(folder)
    try:
        while waiting:
            here = waiting.pop()
            with os.scandir(root + b"/" + here) as children:
                for child in children:
                    name = here + b"/" + child.name if here else child.name
                    if child.name == CACHES or name in left_out:
                        continue
                    found[name] = _entry(child, name)
                    if found[name].kind == "d":
                        waiting.append(name)
    except OSError as error:
        raise ToolFailed(f"cannot read {folder}: {error.filename}: {error.strerror}") from error
    return found


def _entry(child: os.DirEntry[bytes], name: bytes) -> Entry:
    status = child.stat(follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return Entry("d", FOLDER_MODE)
    if stat.S_ISREG(status.st_mode):
        return Entry("f", PROGRAM_MODE if status.st_mode & 0o111 else FILE_MODE, status.st_size)
    if stat.S_ISLNK(status.st_mode):
        return Entry("l", 0o777, 0, os.readlink(child.path))
    raise BadInput(f"{os.fsdecode(name)!r} is neither file, folder nor symlink", hint="remove it, then pack again")
