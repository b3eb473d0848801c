"""Writes files atomically: each is written next to its target, synced to disk and renamed. Also locks directories."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import ParamSpec

from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.core.files.rights import set_rights

P = ParamSpec("P")
STAGED_SUFFIX = ".uenvtool-part"
STRAYS = f".*{STAGED_SUFFIX}"
REMEDIES = {
    errno.ENOSPC: "free space on the disk of {disk} (`df {disk}`), or inodes (`df -i {disk}`), or name another path",
    errno.EDQUOT: "your quota on the disk of {disk} is used up: delete files there, or name another path",
    errno.EROFS: "{disk} is mounted read-only: name another path",
    errno.EACCES: "you may not write to {folder}: name another path, or ask its owner",
    errno.EPERM: "you may not write to {folder}: name another path, or ask its owner",
}
"""The hint for each error number of the operating system."""
_DISK_FAILED = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
LONGEST_NAME = 255
"""The largest number of bytes in a file name on Linux."""
UNCHANGED = "nothing was changed"
PARTLY = "some files may already be replaced or removed, and the next run writes all of them"


def write(path: Path, content: str | bytes) -> None:
    """Write one file atomically: a reader sees either the old or the new content. Its permissions do not change.

    Raises ToolFailed if the write fails, for example on a full disk. The old file is then unchanged.
    """
    write_all(path.parent, [(path.name, content)])


def write_all(folder: Path, changes: Iterable[tuple[str, str | bytes | None]], *, emptied: Iterable[str] = ()) -> None:
    """Write and remove files below `folder`, in this order.

    All new files are on disk next to their targets before the first target is replaced or removed. Until then, a disk
    that is full, has no inodes left or fails during the sync causes no change. Afterwards, files are only renamed and
    removed, which btrfs refuses if a quota is used up. A file whose content is already right is not touched, and a
    replaced file keeps its permissions.

    changes: relative names and contents; None removes the file. A name may occur twice, such as a record that first
    names the files being written. emptied: names of files whose directories are removed if they are empty. Raises
    ToolFailed, whose hint states whether anything was changed.
    """
    staged: list[tuple[Path | None, Path]] = []  # names files before they exist, because Ctrl-C can arrive at any time
    named: set[Path] = set()
    made: list[Path] = []
    state = UNCHANGED
    try:
        make_folders(folder, made)
        for name, content in changes:
            target = folder / name
            if content is None:
                staged.append((None, target))
            elif target in named or not _holds(target, as_bytes(content)):
                make_folders(target.parent, made)
                new = _temporary(target.parent)
                staged.append((new, target))
                _stage(new, target, as_bytes(content))
            named.add(target)
        for temporary, target in staged:
            if temporary:
                os.replace(temporary, target)
            elif os.path.lexists(target):
                target.unlink()
            state = PARTLY
        sync_folders({target.parent for _, target in staged if target.parent.exists()})
        for name in emptied:
            remove_empty([folder / parent for parent in reversed(PurePath(name).parents) if parent.parts])
    except OSError as error:
        raise write_error(folder, error, state) from error
    finally:
        to_the_end(_remove_unpublished, [temporary for temporary, _ in staged if temporary], made)


def _remove_unpublished(temporaries: Iterable[Path], made: list[Path]) -> None:
    for temporary in temporaries:
        _remove_stray(temporary)
    remove_empty(made)


def to_the_end(clean_up: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
    """Call a function that removes files. If Ctrl-C interrupts the call, call the function again."""
    try:
        clean_up(*arguments, **named)
    except KeyboardInterrupt:
        clean_up(*arguments, **named)
        raise


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() == data
    except PermissionError:
        return False


def set_shared_mode(path: Path) -> None:
    """Give a finished file the permissions of a new file in its directory."""
    with write_errors(path):
        like = _temporary(path.parent)
        try:
            os.close(_created(like, 0o666))
            set_rights(path, like.stat().st_mode & 0o777, like)
        finally:
            _remove_stray(like)


def sync(path: Path) -> None:
    """Sync a file that another program wrote to disk. Raises ToolFailed if that fails, as on a full disk."""
    with write_errors(path):
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Convert each OSError in the block to the error of `write_error`."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError, state: str = UNCHANGED) -> ToolFailed:
    """Return the error for a failed write to `path`, with a hint about its disk or its permissions.

    state: the sentence of the hint that describes the current state of the files. The error of a copy or rename
    contains two names; the second is the written file. A name in another directory than that of `path` is a file that
    could not be read. Raises BadInput if there is a file where a directory is needed.
    """
    if isinstance(error, NotADirectoryError | FileExistsError):  # FileExistsError: a dangling link
        require_directory(path)
    named = next((name for name in (error.filename2, error.filename) if isinstance(name, str | bytes)), path)
    place, parent = os.fsdecode(named), os.path.dirname(os.path.abspath(path))
    place = os.getcwd() if place == os.curdir else place
    written = os.path.abspath(place)
    if error.filename2 is None and os.path.commonpath([parent, written]) not in (parent, written):
        hint = f"{state}; check its permissions and its disk, then run the command again"
        return ToolFailed(f"cannot read {place}: {error.strerror or error}", hint=hint)
    remedy = REMEDIES.get(error.errno or 0, "name another path")
    remedy = remedy.format(folder=os.path.dirname(place) or ".", disk=_disk(place))
    return ToolFailed(
        f"cannot write {place}: {error.strerror or error}", hint=f"{state}; {remedy}, then run the command again"
    )


def full_disk(path: Path, text: str) -> ToolFailed | None:
    """Return the error for `path` if a program's output reports a full disk or an exceeded quota, or else None."""
    phrases = {"no space left": errno.ENOSPC, "quota exceeded": errno.EDQUOT}
    number = next((number for phrase, number in phrases.items() if phrase in text.lower()), None)
    return None if number is None else write_error(path, OSError(number, os.strerror(number)))


def require_directory(folder: Path) -> None:
    """Raise BadInput if the path or one of its parents exists and is not a directory."""
    for place in (*reversed(folder.parents), folder):
        if os.path.lexists(place) and not place.is_dir():
            raise BadInput(f"{place} is not a directory", hint=f"name another path, or move {place} away")


def _disk(place: str) -> str:
    place = os.path.abspath(place)  # the mount point still exists after the files of a failed write are removed
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    return place


@contextlib.contextmanager
def locked(folder: Path, *, shared: bool = False, wait: bool = False, below: bool = True) -> Iterator[None]:
    """Lock `folder` for one writer at a time. Raises ToolFailed if another writer has locked it.

    The lock is on the directory itself (flock), so it needs no file and ends with its process. A missing directory is
    created, and removed again if it stays empty. shared: allow any number of shared writers at the same time. wait:
    wait for a writer that finishes soon instead of failing. below: also remove the temporary files that a killed run
    left in subdirectories, which then must belong to uenvtool.
    """
    made: list[Path] = []
    try:
        make_folders(folder, made)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise write_error(folder, error) from error
    try:
        take_lock(descriptor, folder, shared=shared, wait=wait)
        if not shared:
            # The lock guarantees that no other process is writing the temporary files.
            for stray in folder.rglob(STRAYS) if below else folder.glob(STRAYS):
                _remove_stray(stray)
        yield
    finally:
        with contextlib.suppress(OSError):  # all files are on disk, and the kernel has released the lock anyway
            os.close(descriptor)
        remove_empty(made)


def take_lock(descriptor: int, shown: Path, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open directory, unless its filesystem lacks locks. Raises ToolFailed for `shown` if it is in use."""
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        holder = next((number for number in _lock_holders(descriptor) if number > 0), 0)
        who = f"process {holder} on this node (`ps -fp {holder}`)" if holder else "another uenvtool, on any node,"
        hint = f"{who} is writing there: wait until it ends, or name another path"
        raise ToolFailed(f"{shown} is in use", hint=hint) from error
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise


def _lock_holders(descriptor: int) -> list[int]:
    # proc_locks(5): an ID of 0 or less is a process that is not visible on this machine. Trying to take the lock
    # instead could make another process fail.
    with contextlib.suppress(OSError):
        status = os.fstat(descriptor)
        name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        return [int(fields[4]) for fields in locks if fields[1] == "FLOCK" and fields[5] == name]
    return []


def _remove_stray(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _temporary(folder: Path) -> Path:
    # The target's name may have the maximum length, so the temporary name does not contain it.
    return folder / f".{os.urandom(8).hex()}{STAGED_SUFFIX}"


def _created(path: Path, mode: int) -> int:
    # The kernel restricts the mode by the umask, or by the directory's default access control list.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)


def _stage(temporary: Path, target: Path, data: bytes) -> None:
    is_replaced = target.exists()
    with os.fdopen(_created(temporary, 0o600 if is_replaced else 0o666), "wb") as stream:
        stream.write(data)
        stream.flush()
        if is_replaced:
            set_rights(stream.fileno(), target.stat().st_mode & 0o777 | 0o600, target)
        os.fsync(stream.fileno())


def as_bytes(content: str | bytes) -> bytes:
    """Return the content of a file as bytes; a text may contain paths that are not valid UTF-8."""
    return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content


def name_beside(name: str, prefix: str = "", suffix: str = "") -> str:
    """Return a name for a file next to `name`, or a hash with the same prefix and suffix if that would be too long."""
    new = f"{prefix}{name}{suffix}"
    if len(os.fsencode(new)) <= LONGEST_NAME:
        return new
    return f"{prefix}{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}{suffix}"


def make_folders(folder: Path, made: list[Path]) -> None:
    """Create `folder` and its parents, and add the created directories to `made`, outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        made.append(path)
        path.mkdir(exist_ok=True)


def remove_empty(folders: list[Path]) -> None:
    """Remove the empty directories in a list, whose first entry is the outermost directory."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()  # fails for a directory that is not empty


def sync_folders(folders: set[Path]) -> None:
    """Sync directories, so that renames are on disk too. Raises OSError if the disk fails.

    Some filesystems cannot sync a directory. After a crash, a directory on them may contain the old names.
    """
    for folder in folders:
        try:
            _sync(folder)
        except OSError as error:
            if error.errno in _DISK_FAILED:
                raise
