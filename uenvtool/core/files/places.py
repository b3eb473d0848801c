"""Working directories for unfinished files: next to the target, or in the temporary directory."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files.atomic import (
    make_folders,
    name_beside,
    remove_empty,
    take_lock,
    to_the_end,
    write_error,
    write_errors,
)
from uenvtool.core.files.trees import remove_tree

WORK_SUFFIX = ".uenvtool-work"
PREFIX = "uenvtool-"


@contextlib.contextmanager
def workplace(target: Path) -> Iterator[Path]:
    """Yield a working directory next to `target`, for one writer at a time. Raises ToolFailed if another one uses it.

    It contains the future target (`new`) and the previous one (`old`). The leftovers of a killed run are removed first,
    and a target that this run moved away and did not replace is moved back.
    """
    work = target.parent / name_beside(target.name, ".", WORK_SUFFIX)
    made: list[Path] = []
    try:
        make_folders(target.parent, made)
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
        to_the_end(_remove_work, work, made)
        os.close(descriptor)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a new, locked temporary directory, and remove it at the end. Removes this user's leftovers first."""
    place, owner = Path(tempfile.gettempdir()), f"{PREFIX}{os.getuid()}-"
    with write_errors(place):
        _remove_dead(place, owner)
        folder, descriptor = _new_and_held(place, owner)
    try:
        yield folder
    finally:
        to_the_end(remove_tree, folder)
        os.close(descriptor)


def is_writable(directory: Path) -> bool:
    """Return whether this user can create directories in a directory. It tries, because root may always write."""
    try:
        os.rmdir(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
    except OSError:
        return False
    return True


def _new_and_held(place: Path, prefix: str) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        with contextlib.suppress(ToolFailed):  # another run takes it for a leftover of a killed run and removes it
            return folder, _held(folder, folder)


def _held(folder: Path, shown: Path) -> int:
    # uenvtool removes the contents as the leftovers of a killed run, so other users must not be able to write here.
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        except NotADirectoryError as error:
            raise _in_the_way(folder, "is not a directory") from error
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid():
                raise _in_the_way(folder, "belongs to another user")
            if status.st_mode & 0o022:
                raise _in_the_way(folder, "is writable by other users")
            take_lock(descriptor, shown)
            with contextlib.suppress(FileNotFoundError):
                if status.st_ino == os.stat(folder).st_ino:  # otherwise another run removed it before the lock
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _in_the_way(folder: Path, why: str) -> BadInput:
    hint = "check its contents and remove it, or name another path"
    return BadInput(f"{folder} already exists and {why}", hint=hint)


def _remove_dead(place: Path, prefix: str) -> None:
    for stray in place.glob(f"{prefix}*"):
        with contextlib.suppress(OSError, BadInput, ToolFailed):  # it belongs to another user, or its run is alive
            descriptor = _held(stray, stray)
            try:
                remove_tree(stray)
            finally:
                os.close(descriptor)


def _remove_work(folder: Path, made: list[Path]) -> None:
    _empty(folder)
    with contextlib.suppress(OSError):
        folder.rmdir()
    remove_empty(made)


def _empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for child in folder.iterdir():
            remove_tree(child)
