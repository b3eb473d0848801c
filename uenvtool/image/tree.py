"""What an image will hold: every file, folder and symlink of a tree, what is put in, and what is left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed

EPOCH = 315532800
"""1980-01-01, the earliest time that a ZIP archive can hold: tools that zip packages up need it."""
FOLDER_MODE, FILE_MODE, PROGRAM_MODE, SYMLINK_MODE = 0o755, 0o644, 0o755, 0o777
COPY_BYTES = 1 << 17


class Entry(NamedTuple):
    """One name in an image. A tuple, since an image has many.

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

    known: what is taken from the folder, if somebody looked already. added: what is put in or replaced,
    with its content. bundles: more of that. left_out: the names that are not taken. skipped: names of
    folders that are not taken wherever they lie.
    """

    folder: Path
    known: Mapping[bytes, Entry] | None = None
    added: Mapping[bytes, bytes] = field(default_factory=dict)
    bundles: Sequence[Bundle] = ()
    left_out: Collection[bytes] = ()
    skipped: Collection[bytes] = ()

    @cached_property
    def entries(self) -> Mapping[bytes, Entry]:
        """Return all that is taken from the folder. Raises as `walk`, if it is not known."""
        return walk(self.folder, left_out=self.left_out, skipped=self.skipped) if self.known is None else self.known

    def replaced(self, name: bytes) -> Entry | None:
        """Return what the folder has under a name that is put in; the folder need not be walked for it."""
        if self.known is not None:
            return self.known.get(name)
        if any(part in self.left_out or os.path.basename(part) in self.skipped for part in (name, *parents(name))):
            return None
        if any(os.path.islink(self.path_of(parent)) for parent in parents(name)):
            return None
        try:
            status = os.lstat(self.path_of(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISLNK(status.st_mode):
            return _link(self.path_of(name))
        return FOLDER if stat.S_ISDIR(status.st_mode) else _file(status)

    @cached_property
    def contents(self) -> dict[bytes, bytes | memoryview]:
        """Return all that is put in, in the order in which it is written."""
        found: dict[bytes, bytes | memoryview] = dict(self.added)
        for bundle in self.bundles:
            found.update(bundle.contents)
        return found

    @cached_property
    def expected(self) -> dict[bytes, Entry]:
        """Everything that the image has to hold."""
        found = {name: entry for name, entry in self.entries.items() if name not in self.contents}
        found.update((name, self.put_in(name)) for name in self.contents)
        return {**found, **dict.fromkeys(self.added_folders(), FOLDER)}

    def put_in(self, name: bytes) -> Entry:
        """Return what is put in under a name; it has the mode of the file that it replaces."""
        old = self.replaced(name)
        mode = old.mode if old and old.kind == "f" else FILE_MODE
        return Entry(kind="f", mode=mode, size=len(self.contents[name]))

    def path_of(self, name: bytes) -> bytes:
        """Return where an entry of the folder lies."""
        return os.fsencode(self.folder) + b"/" + name

    def added_folders(self) -> list[bytes]:
        """Return the folders that only what is put in needs, outermost first."""
        needed: set[bytes] = set()
        for name in self.contents:
            for parent in parents(name):
                if parent in needed:
                    break  # and so are those above it
                needed.add(parent)
        return sorted(name for name in needed if self.replaced(name) is None)


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


def parents(name: bytes) -> Iterator[bytes]:
    """Yield the folders above a name, innermost first."""
    parent = os.path.dirname(name)
    while parent:
        yield parent
        parent = os.path.dirname(parent)


def walk(folder: Path, *, left_out: Collection[bytes] = (), skipped: Collection[bytes] = ()) -> dict[bytes, Entry]:
    """Return everything below a folder, but the names that are left out and folders whose own name is skipped.

    Raises BadInput if it holds what no image of software should (a device, a pipe, a socket),
    ToolFailed if something cannot be read.
    """
    found: dict[bytes, Entry] = {}
    waiting = [b""]
    root = os.fsencode(folder)
    try:
        while waiting:
            if processes.is_interrupted():  # in a thread nothing else says so
                raise KeyboardInterrupt
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
    """Return what a name is. The kernel told of links and folders when it listed them: each call counts."""
    if child.is_symlink():
        return _link(child.path)
    if child.is_dir(follow_symlinks=False):
        return FOLDER
    if child.is_file(follow_symlinks=False):
        return _file(child.stat(follow_symlinks=False))
    raise BadInput(f"{os.fsdecode(name)!r} is neither file, folder nor symlink", hint="remove it, then pack again")


def _link(path: bytes) -> Entry:
    return Entry(kind="l", mode=SYMLINK_MODE, target=os.readlink(path))


def _file(status: os.stat_result) -> Entry:
    return Entry(kind="f", mode=PROGRAM_MODE if status.st_mode & 0o111 else FILE_MODE, size=status.st_size)
