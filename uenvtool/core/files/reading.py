"""Files of others are read with bounds: what is no regular file, or too large, is refused before it is read."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from uenvtool.core.errors import BadInput, Position

LAST_BYTES = 16 << 10
LAST_LINES = 12
_STREAM = re.compile(r"/dev/std(in|out|err)|/dev/fd/\d+|/proc/self/fd/\d+")


@contextlib.contextmanager
def opened(path: Path, shown: str = "") -> Iterator[BinaryIO]:
    """Yield a regular file, open for reading.

    Raises FileNotFoundError if there is none; BadInput for what is no file, see `is_file`, and for one that may not
    be read. shown: its name in what is said of it.
    """
    place = Position(shown or str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise _unreadable(error, place, "`ls -l` shows its permissions, and where it leads") from error
    try:
        status = os.fstat(descriptor)
        if not _is_file(status):
            what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise BadInput(f"this is {what}", place, "name a file")
        with open(descriptor, "rb", closefd=False) as stream:
            yield stream
    except OSError as error:
        if error.filename is not None:  # of another file
            raise
        raise _unreadable(error, place, "its disk, or the image that it is mounted from, is damaged") from error
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened_named(path: Path) -> Iterator[BinaryIO]:
    """Yield what a user names, open for reading: a file, or a stream. Raises what `opened` does."""
    if not is_stream(path):
        with opened(path) as stream:
            yield stream
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise _unreadable(error, Position(str(path)), "is it open? name a file in its place") from error
    with stream:
        yield stream


def _unreadable(error: OSError, place: Position, hint: str) -> BadInput:
    return BadInput(f"cannot read it: {error.strerror}", place, hint)


def is_file(path: Path) -> bool:
    """Tell if a path leads to a regular file: no folder, no pipe or device, which may never end, nor one of /proc."""
    with contextlib.suppress(OSError, ValueError):
        return _is_file(path.stat())
    return False


def _is_file(status: os.stat_result) -> bool:
    """Tell it from what the system says of a file; those of /proc are made when they are read, some without an end."""
    return stat.S_ISREG(status.st_mode) and status.st_dev != os.stat("/proc").st_dev


def read_bytes(path: Path, most: int) -> bytes:
    """Return a regular file's content, at most so many bytes. Raises what `opened` does; BadInput if it is larger."""
    with opened(path) as stream:
        return _all(stream, path, most)


def is_stream(path: Path) -> bool:
    """Tell if a path is an open file of the process, such as a pipe: `-r <(...)`, `-r /dev/stdin`."""
    return _STREAM.fullmatch(str(path)) is not None


def read_named(path: Path, most: int) -> bytes:
    """Return the content of a file that the user names, which may be a pipe too; a pipe is read to its end.

    Raises what `read_bytes` does.
    """
    with opened_named(path) as stream:
        return _all(stream, path, most)


def _all(stream: BinaryIO, path: Path, most: int) -> bytes:
    content = stream.read(most + 1)
    if len(content) > most:
        raise BadInput(f"larger than {most / 1e6:g} MB", Position(str(path)), "name another file")
    return content


def last_lines(path: Path) -> list[str]:
    """Return the last lines of a log, which say why it ended; none if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - LAST_BYTES))
            return stream.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
    except OSError:
        return []
