"""Finished files and folders get their names together: all of them, or none."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uenvtool.core.files.atomic import sync_folders, write_error

Undo = Callable[[], None]


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

    A reader finds the old one or the new one under each name. Raises ToolFailed if a rename fails; every
    target and every `previous` is then what it was. The same is true after an interruption.
    """
    undo: list[Undo] = []
    try:
        for replacement in replacements:
            _put(replacement, undo)
        for replacement in replacements:
            _keep_old(replacement, undo)
        sync_folders({replacement.target.parent for replacement in replacements})
    except BaseException as error:
        for step in reversed(undo):
            with contextlib.suppress(OSError):
                step()
        if isinstance(error, OSError):
            raise write_error(replacements[0].target, error) from error
        raise


def _put(replacement: Replacement, undo: list[Undo]) -> None:
    new, target, old = replacement.new, replacement.target, replacement.old
    if not os.path.lexists(target):
        _rename(new, target, undo)
        return
    finished = os.lstat(new).st_ino
    undo.append(lambda: _exchange_back(new, target, finished))
    if _exchanged(new, target):
        _rename(new, old, undo)
    else:
        undo.pop()
        _rename(target, old, undo)
        _rename(new, target, undo)


def _keep_old(replacement: Replacement, undo: list[Undo]) -> None:
    if replacement.previous is None or not os.path.lexists(replacement.old):
        return
    if os.path.lexists(replacement.previous):
        _rename(replacement.previous, replacement.new.with_name("older"), undo)
    _rename(replacement.old, replacement.previous, undo)


def _rename(source: Path, target: Path, undo: list[Undo]) -> None:
    """Rename, and know how to go back also if an interruption comes before this returns."""
    inode = os.lstat(source).st_ino
    undo.append(lambda: _rename_back(source, target, inode))
    os.rename(source, target)


def _rename_back(source: Path, target: Path, inode: int) -> None:
    if not os.path.lexists(source) and os.lstat(target).st_ino == inode:
        os.rename(target, source)


def _exchange_back(new: Path, target: Path, finished: int) -> None:
    if os.lstat(target).st_ino == finished:
        _exchanged(new, target)


def _exchanged(one: Path, other: Path) -> bool:
    """Let the kernel exchange two names at once (renameat2); False if it or the filesystem cannot."""
    import ctypes

    at_cwd, exchange = -100, 2
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return bool(rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0)
