"""Where work is done before it has its place: beside the target, or in the temporary folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files.atomic import make_folders, remove_empty, take_lock, write_error, write_errors
from uenvtool.core.files.trees import remove_tree

WORK_SUFFIX = ".uenvtool-work"
PREFIX = "uenvtool-"


@contextlib.contextmanager
def workplace(target: Path) -> Iterator[Path]:
    """Yield a folder beside `target` for one writer at a time; a second one is refused with ToolFailed.

    It holds what will become the target (`new`) and what was it (`old`). What a killed run left is
    cleared first: a target that was moved away and not replaced is moved back.
    """
    work = target.parent / f".{target.name}{WORK_SUFFIX}"
    made: list[Path] = []
    try:
        made = make_folders(target.parent)
        descriptor = _held(work, target)
    except OSError as error:
        remove_empty(made)
        raise write_error(target, error) from error
    try:
        if not os.path.lexists(target) and os.path.lexists(work / "old"):
            os.rename(work / "old", target)
        _empty(work)
        yield work
    finally:
        _empty(work)
        with contextlib.suppress(OSError):
            work.rmdir()
        os.close(descriptor)
        remove_empty(made)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder of this run in the temporary folder, removed at the end whatever happens.

    It is locked while it is used; what killed runs of this user left is removed first.
    """
    place, owner = Path(tempfile.gettempdir()), f"{PREFIX}{os.getuid()}-"
    with write_errors(place):
        _remove_dead(place, owner)
        folder, descriptor = _new_and_held(place, owner)
    try:
        yield folder
    finally:
        remove_tree(folder)
        os.close(descriptor)


def _new_and_held(place: Path, prefix: str) -> tuple[Path, int]:
    """Return a new folder, and an open descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        with contextlib.suppress(ToolFailed):  # another run took it for what a killed one left, and removes it
            return folder, _held(folder, folder)


def _held(folder: Path, shown: Path) -> int:
    """Return a descriptor that holds the lock of `folder`, which is made; ToolFailed, about `shown`, if another has it.

    Raises BadInput for a folder that is there already and that others can have written into: what lies in it would be
    taken for what a killed run left.
    """
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        except NotADirectoryError as error:
            raise _in_the_way(folder, "is no folder") from error
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid():
                raise _in_the_way(folder, "is another user's")
            if status.st_mode & 0o022:
                raise _in_the_way(folder, "can be written by other users")
            take_lock(descriptor, shown)
            with contextlib.suppress(FileNotFoundError):
                if status.st_ino == os.stat(folder).st_ino:  # or another run removed it before it was locked
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _in_the_way(folder: Path, why: str) -> BadInput:
    hint = "see what is in it, and remove it; or name another place"
    return BadInput(f"{folder} is in the way: it is there already and {why}", hint=hint)


def _remove_dead(place: Path, prefix: str) -> None:
    for stray in place.glob(f"{prefix}*"):
        with contextlib.suppress(OSError, BadInput, ToolFailed):  # another user's, or its run is alive
            descriptor = _held(stray, stray)
            try:
                remove_tree(stray)
            finally:
                os.close(descriptor)


def _empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for child in folder.iterdir():
            remove_tree(child)
