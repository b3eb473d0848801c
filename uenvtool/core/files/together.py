"""Finished files and folders get their names together: all of them, or none."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.files.atomic import sync_folders, write_error


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """A finished file or folder that is to get its name.

    new: complete and on disk, in a work folder on the target's filesystem; what had the name is at `old`
    beside it afterwards. target: the name. previous: the name that the old one keeps; None if it is not kept.
    """

    new: Path
    target: Path
    previous: Path | None = None

    @property
    def old(self) -> Path:
        """Return where `workplace` looks for what a dead run moved away."""
        return self.new.with_name("old")


def publish(replacements: Sequence[Replacement]) -> None:
    """Give each its name; if one cannot have it, the others lose theirs again.

    A reader finds the old one or the new one under each name; the new one has the rights of the old. Raises ToolFailed
    if a rename fails; every target and every `previous` is then what it was. The same is true after an interruption.
    """
    moved: list[tuple[Path, Path, int]] = []

    def rename(source: Path, target: Path) -> None:
        moved.append((source, target, os.lstat(source).st_ino))  # first: an interruption may come before it returns
        os.rename(source, target)

    def exchanged(source: Path, target: Path) -> bool:
        moved.append((source, target, os.lstat(source).st_ino))
        return _exchange(source, target)

    try:
        for item in replacements:
            _keep_rights(item.new, item.target)
            if not os.path.lexists(item.target):
                rename(item.new, item.target)
            elif exchanged(item.new, item.target):
                rename(item.new, item.old)
            else:
                rename(item.target, item.old)
                rename(item.new, item.target)
        for item in replacements:
            if item.previous and os.path.lexists(item.old):
                if os.path.lexists(item.previous):
                    rename(item.previous, item.new.with_name("older"))
                rename(item.old, item.previous)
        sync_folders({item.target.parent for item in replacements})
    except BaseException as error:
        for source, target, inode in reversed(moved):
            _move_back(source, target, inode)
        if isinstance(error, OSError):
            raise write_error(replacements[0].target, error) from error
        raise


def _keep_rights(new: Path, old: Path) -> None:
    """Let those who could use the old file or folder, and they alone, use the new one: by its mode and its group.

    Of a folder all that lies in it gets the rights of the folder; a file with several names may be a cache's too.
    """
    if not old.exists():
        return
    rights = old.stat()
    _share(os.fspath(new), rights)
    for folder, folders, names in os.walk(new):
        for name in (*folders, *names):
            _share(os.path.join(folder, name), rights)


def _share(path: str, rights: os.stat_result) -> None:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode) or (status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode)):
        return
    with contextlib.suppress(PermissionError):  # a group that the user is no member of
        if status.st_gid != rights.st_gid:
            os.chown(path, -1, rights.st_gid)
    own = status.st_mode >> 6 & 0o7
    wanted = own << 6 | (own << 3 & rights.st_mode) | (own & rights.st_mode)
    if stat.S_ISDIR(status.st_mode):
        wanted |= (status.st_mode | rights.st_mode) & stat.S_ISGID
    if stat.S_IMODE(status.st_mode) != wanted:
        os.chmod(path, wanted)


def _move_back(source: Path, target: Path, inode: int) -> None:
    with contextlib.suppress(OSError):
        if os.lstat(target).st_ino != inode:
            return
        if os.path.lexists(source):
            _exchange(target, source)
        else:
            os.rename(target, source)


def _exchange(one: Path, other: Path) -> bool:
    """Let the kernel exchange two names at once (renameat2); False if the filesystem cannot."""
    import ctypes

    at_cwd, exchange = -100, 2
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:  # a C library without it, as musl's
        return False
    return bool(rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0)
