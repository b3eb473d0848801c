"""Renames several finished files and directories to their targets: all of them or none."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.files.atomic import name_beside, sync_folders, write_error
from uenvtool.core.files.rights import has_list, set_rights


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """A finished file or directory and its target.

    new: its path, complete and on disk, in a working directory on the target's filesystem. target: the path that it
    replaces; the previous file moves to `old`, next to `new`. previous: a path under which the previous file is kept;
    None if it is not kept.
    """

    new: Path
    target: Path
    previous: Path | None = None

    @property
    def old(self) -> Path:
        """Return the path of the moved target, where `workplace` finds it after a killed run."""
        return self.new.with_name("old")


def publish(replacements: Sequence[Replacement]) -> None:
    """Rename each file to its target, and undo all renames if one fails.

    At any time, a reader finds the old or the new file at each target. The new file gets the permissions of the old
    one. Raises ToolFailed if a rename fails. After this error or an interruption, every `target` and every `previous`
    is unchanged.
    """
    moved: list[tuple[Path, Path, int]] = []

    def rename(source: Path, target: Path) -> None:
        moved.append((source, target, os.lstat(source).st_ino))  # before the rename, which may be interrupted
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
    # Exactly the users of the old file or directory can use the new one, and everything in it.
    if not old.exists():
        return
    rights = old.stat()
    listed = old if has_list(old) or has_list(new) else None
    _share(os.fspath(new), rights, listed)
    for folder, folders, names in os.walk(new):
        for name in (*folders, *names):
            _share(os.path.join(folder, name), rights, listed)


def _share(path: str, rights: os.stat_result, listed: Path | None) -> None:
    # listed: the old file or directory if it or the new one has an access control list.
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return
    owner = status.st_mode >> 6 & 0o7
    mode = owner << 6 | (owner << 3 & rights.st_mode) | (owner & rights.st_mode)
    if stat.S_ISDIR(status.st_mode):
        mode |= (status.st_mode | rights.st_mode) & stat.S_ISGID
    may_change_group = os.geteuid() == 0 or rights.st_gid in (os.getegid(), *os.getgroups())
    has_group = status.st_gid == rights.st_gid or not may_change_group
    if stat.S_IMODE(status.st_mode) == mode and has_group and not listed:
        return
    if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):  # the file also belongs to the old directory or a cache
        import shutil

        folder, name = os.path.split(path)
        copy = os.path.join(folder, name_beside(name, suffix=".uenvtool-copy"))
        shutil.copy2(path, copy)
        os.replace(copy, path)
    if not has_group:
        with contextlib.suppress(PermissionError):
            os.chown(path, -1, rights.st_gid)
    if listed:
        set_rights(path, mode, listed, narrowed=True)
    else:
        os.chmod(path, mode)


def _move_back(source: Path, target: Path, inode: int) -> None:
    with contextlib.suppress(OSError):
        if os.lstat(target).st_ino != inode:
            return
        if os.path.lexists(source):
            _exchange(target, source)
        else:
            os.rename(target, source)


def _exchange(first: Path, second: Path) -> bool:
    import ctypes

    at_cwd, exchange = -100, 2
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:  # the C library does not have it, such as musl
        return False
    return bool(rename(at_cwd, os.fsencode(first), at_cwd, os.fsencode(second), exchange) == 0)
