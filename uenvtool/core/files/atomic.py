"""One file at a time: written beside its place, on disk, renamed; and locks."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from uenvtool.core.errors import BadInput, ToolFailed

STAGED_SUFFIX = ".uenvtool-part"
REMEDIES = {
    errno.ENOSPC: "free space on the disk of {disk} (df {disk}), or name another place",
    errno.EDQUOT: "your quota on the disk of {disk} is spent: free some of it, or name another place",
    errno.EROFS: "{disk} is mounted read-only: name another place",
    errno.EACCES: "{folder} is not yours to write: name another place, or ask its owner",
    errno.EPERM: "{folder} is not yours to write: name another place, or ask its owner",
}
"""What helps, by what the system said."""
_DISK_FAILED = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
UNCHANGED = "nothing was changed"
PARTLY = "some of the files may be new or gone, and the next run writes all"


def write(path: Path, content: str | bytes) -> None:
    """Write one file so that a reader sees the old content or the new one, never a part; its permissions stay.

    Raises ToolFailed if the disk is full, the folder read-only or the quota spent; the old
    file is then unchanged.
    """
    write_all(path.parent, [(path.name, content)])


def write_all(
    folder: Path,
    changes: Iterable[tuple[str, str | bytes | None]],
    *,
    emptied: Iterable[str] = (),
) -> None:
    """Write and remove files below `folder`, in this order.

    All of them are on disk beside their places before the first is replaced or removed: a disk that is full, has no
    inodes left or fails when it is synced has changed nothing then. Afterwards there are only names to give and to
    take away, which btrfs refuses where a quota is spent. A file whose content is already right is not touched, and
    one that is replaced keeps its permissions.

    changes: relative name and content; None removes the file. A name may come twice, as a record that says first what
    is being written. emptied: names whose folders go if nothing is left in them. Raises ToolFailed, which says if
    anything was changed.
    """
    staged: list[tuple[Path | None, Path]] = []
    named: set[Path] = set()
    made: list[Path] = []
    state = UNCHANGED
    try:
        made += make_folders(folder)
        for name, content in changes:
            target = folder / name
            if content is None:
                staged.append((None, target))
            elif target in named or not _holds(target, as_bytes(content)):
                made += make_folders(target.parent)
                mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~umask()
                staged.append((_stage(target, as_bytes(content), mode), target))
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
        for temporary, _ in staged:
            if temporary:
                _remove_stray(temporary)
        remove_empty(made)


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() == data
    except PermissionError:
        return False


def set_shared_mode(path: Path) -> None:
    """Give a finished file the mode that the user's umask gives to new files."""
    with write_errors(path):
        path.chmod(0o666 & ~umask())


def sync(path: Path) -> None:
    """Put a file that another program wrote on disk. Raises ToolFailed if that fails, as on a full disk."""
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
    """Raise what the system refuses inside as the error of `write_error`."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError, state: str = UNCHANGED) -> ToolFailed:
    """Return the error that says why `path` could not be written, and which disk or permission would help.

    state: what is there now. Of a copy or a rename the error has both names, the second of them is the one that is
    written. A name elsewhere than at `path` is one that could not be read. Raises BadInput for a file where a folder
    must be.
    """
    if isinstance(error, NotADirectoryError | FileExistsError):  # the latter: a link to nowhere
        require_room(path)
    named = next((name for name in (error.filename2, error.filename) if isinstance(name, str | bytes)), path)
    place, beside = os.fsdecode(named), os.path.dirname(os.path.abspath(path))
    place = os.getcwd() if place == os.curdir else place
    written = os.path.abspath(place)
    if error.filename2 is None and os.path.commonpath([beside, written]) not in (beside, written):
        hint = f"{state}; look at its permissions and its disk, then run it again"
        return ToolFailed(f"cannot read {place}: {error.strerror or error}", hint=hint)
    remedy = REMEDIES.get(error.errno or 0, "name another place")
    return ToolFailed(
        f"cannot write {place}: {error.strerror or error}",
        hint=f"{state}; {remedy.format(folder=os.path.dirname(place) or '.', disk=_disk(place))}, then run it again",
    )


def full_disk(path: Path, text: str) -> ToolFailed | None:
    """Return the error for `path` if another program says in a text that its disk is full; None if it does not."""
    said = {"no space left": errno.ENOSPC, "quota exceeded": errno.EDQUOT}
    number = next((number for words, number in said.items() if words in text.lower()), None)
    return None if number is None else write_error(path, OSError(number, os.strerror(number)))


def require_room(folder: Path) -> None:
    """Raise BadInput if something else lies where the folder, or one around it, is or can be made."""
    for place in (*reversed(folder.parents), folder):
        if os.path.lexists(place) and not place.is_dir():
            raise BadInput(f"{place} is not a folder", hint="name another place, or move it out of the way")


def _disk(place: str) -> str:
    """Return where the disk of a place is mounted: a folder that is there too when what was begun is gone."""
    place = os.path.abspath(place)
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    return place


@contextlib.contextmanager
def locked(folder: Path, *, shared: bool = False, wait: bool = False, below: bool = True) -> Iterator[None]:
    """Hold `folder` for one writer at a time; a second one is refused with ToolFailed.

    The lock is on the folder itself (flock), so it leaves no file behind and dies with its
    process. The folder is made if it is missing, and removed again if it stays empty. shared: any
    number of writers that are shared hold it at the same time. wait: for a writer who is done in a moment, in place
    of being refused. below: the folders in it are the tool's too, and what a killed run left there is removed.
    """
    try:
        made = make_folders(folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise write_error(folder, error) from error
    try:
        take_lock(descriptor, folder, shared=shared, wait=wait)
        if not shared:
            _remove_strays(folder, below=below)
        yield
    finally:
        os.close(descriptor)
        remove_empty(made)


def take_lock(descriptor: int, shown: Path, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open folder until it is closed; ToolFailed, with the name of what is written, if another has it.

    A filesystem without locks is used without.
    """
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        holder = next((number for number in _lock_holders(descriptor) if number > 0), 0)
        here = f"process {holder} of this node (`ps -fp {holder}`)"
        who = here if holder else "another uenvtool, on this node or another,"
        hint = f"{who} is writing there: wait until it has ended, or name another place"
        raise ToolFailed(f"{shown} is in use", hint=hint) from error
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
            raise


def _lock_holders(descriptor: int) -> list[int]:
    """Return the processes of this machine that hold the lock of a file; 0, or less, for one that cannot be seen here.

    Asking the kernel for the lock could refuse it to them. Source: proc_locks(5).
    """
    with contextlib.suppress(OSError):
        status = os.fstat(descriptor)
        name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        locks = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
        return [int(words[4]) for words in locks if words[1] == "FLOCK" and words[5] == name]
    return []


def _remove_strays(folder: Path, *, below: bool) -> None:
    """Remove what a killed run left half written; the lock says that nobody writes it now."""
    pattern = f".*{STAGED_SUFFIX}"
    for stray in folder.rglob(pattern) if below else folder.glob(pattern):
        _remove_stray(stray)


def _remove_stray(path: Path) -> None:
    """Remove a file that has no name of its own yet; a disk that lets nobody do that has said so before."""
    with contextlib.suppress(OSError):
        path.unlink()


def _stage(target: Path, data: bytes, mode: int) -> Path:
    """Write `data` beside `target` under a temporary name, on disk when this returns."""
    name = target.parent / f".{target.name}.{os.urandom(4).hex()}{STAGED_SUFFIX}"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
    except BaseException:
        _remove_stray(name)
        raise
    return name


def as_bytes(content: str | bytes) -> bytes:
    """Return the bytes of a file's content; the name of a folder in it may be no text."""
    return content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content


def umask() -> int:
    """Return the process's umask; what is staged only its owner can read at first."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def make_folders(folder: Path) -> list[Path]:
    """Make `folder` and its parents; the ones that were missing, outermost first."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
    return missing[::-1]


def remove_empty(folders: list[Path]) -> None:
    """Remove folders, given outermost first, that have nothing in them."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()  # refuses if anything is inside, which is what is meant


def sync_folders(folders: set[Path]) -> None:
    """Put the renames on disk too; some filesystems cannot, and lose nothing but recency. Raises OSError."""
    for folder in folders:
        try:
            _sync(folder)
        except OSError as error:
            if error.errno in _DISK_FAILED:
                raise
