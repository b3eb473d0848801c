"""What an image will hold: every file, folder and symlink of a tree, what is put in, and what is left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from uenvtool.errors import BadInput, ToolFailed

FOLDER_MODE, FILE_MODE, PROGRAM_MODE, SYMLINK_MODE = 0o755, 0o644, 0o755, 0o777


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in an image.

    kind: d (folder), f (file) or l (symlink). mode: as in the image, whatever the umask was.
    size: a file's, in bytes. target: a symlink's.
    """

    kind: str
    mode: int
    size: int = 0
    target: bytes = b""


FOLDER = Entry(kind="d", mode=FOLDER_MODE)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A file that holds the contents of several names, one behind the other from the byte `start` on.

    contents: in the order in which they lie in the file. The bytes before `start` are kept for the
    definitions that mksquashfs reads there (`pseudo.header_bytes`).
    """

    file: Path
    start: int
    contents: Mapping[bytes, memoryview]


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A folder, and what differs from it in the image; names are bytes, relative, as the kernel has them.

    entries: what is taken from the folder. added: what is put in or replaced, with its content.
    bundles: more of that. left_out: the names that are not taken. skipped: names of folders that are
    not taken wherever they lie.
    """

    folder: Path
    entries: Mapping[bytes, Entry]
    added: Mapping[bytes, bytes] = field(default_factory=dict)
    bundles: Sequence[Bundle] = ()
    left_out: Collection[bytes] = ()
    skipped: Collection[bytes] = ()

    @cached_property
    def contents(self) -> dict[bytes, bytes | memoryview]:
        """All that is put in, in the order in which it is written."""
        found: dict[bytes, bytes | memoryview] = dict(self.added)
        for bundle in self.bundles:
            found.update(bundle.contents)
        return found

    @cached_property
    def expected(self) -> dict[bytes, Entry]:
        """Everything that the image has to hold."""
        found = {name: entry for name, entry in self.entries.items() if name not in self.contents}
        for name, content in self.contents.items():
            old = self.entries.get(name)
            found[name] = Entry(kind="f", mode=old.mode if old else FILE_MODE, size=len(content))
        return {**found, **dict.fromkeys(self.added_folders(), FOLDER)}

    def path_of(self, name: bytes) -> bytes:
        """Where an entry of the folder lies."""
        return os.fsencode(self.folder) + b"/" + name

    def added_folders(self) -> list[bytes]:
        """The folders that only what is put in needs, outermost first."""
        needed: set[bytes] = set()
        for name in self.contents:
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


def walk(folder: Path, *, left_out: Collection[bytes] = (), skipped: Collection[bytes] = ()) -> dict[bytes, Entry]:
    """Everything below a folder, but the names that are left out and folders whose own name is skipped.

    Raises BadInput if it holds what no image of software should (a device, a pipe, a socket),
    ToolFailed if something cannot be read.
    """
    found: dict[bytes, Entry] = {}
    waiting = [b""]
    root = os.fsencode(folder)
    try:
        while waiting:
            parent = waiting.pop()
            with os.scandir(root + b"/" + parent) as children:
                for child in children:
                    name = parent + b"/" + child.name if parent else child.name
                    if child.name in skipped or name in left_out:
                        continue
                    found[name] = _entry(child, name)
                    if found[name].kind == "d":
                        waiting.append(name)
    except OSError as error:
        raise ToolFailed(f"cannot read {os.fsdecode(error.filename or folder)}: {error.strerror}") from error
    return found


def _entry(child: os.DirEntry[bytes], name: bytes) -> Entry:
    status = child.stat(follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return FOLDER
    if stat.S_ISREG(status.st_mode):
        mode = PROGRAM_MODE if status.st_mode & 0o111 else FILE_MODE
        return Entry(kind="f", mode=mode, size=status.st_size)
    if stat.S_ISLNK(status.st_mode):
        return Entry(kind="l", mode=SYMLINK_MODE, target=os.readlink(child.path))
    raise BadInput(f"{os.fsdecode(name)!r} is neither file, folder nor symlink", hint="remove it, then pack again")
