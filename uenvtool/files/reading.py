"""Files of others are read with bounds: what is no regular file, or too large, is refused before it is read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from uenvtool.errors import BadInput, Position

LAST_BYTES = 16 << 10
LAST_LINES = 12


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a regular file of at most that many bytes.

    Raises FileNotFoundError if there is none; BadInput for a pipe or device, which may never end, for a
    larger file, and for one that may not be read.
    """
    place = Position(str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise BadInput(f"cannot read it: {error.strerror}", place, "check the permissions") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("this is not a regular file", place, "name a file")
        if status.st_size > most:
            raise BadInput(f"larger than {most // 1_000_000} MB", place, "name another file")
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(most)
    finally:
        os.close(descriptor)


def read_stream(path: Path, most: int) -> bytes:
    """What comes from a pipe or another open file that the user names, to its end; of at most that many bytes.

    Raises BadInput if more comes, or if it cannot be read.
    """
    place = Position(str(path))
    try:
        with open(path, "rb") as stream:
            content = stream.read(most + 1)
    except OSError as error:
        raise BadInput(f"cannot read it: {error.strerror}", place, "is it open? name a file in its place") from error
    if len(content) > most:
        raise BadInput(f"larger than {most // 1_000_000} MB", place, "name another file")
    return content


def last_lines(path: Path) -> list[str]:
    """The last lines of a log, which say why it ended; none if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - LAST_BYTES))
            return stream.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
    except OSError:
        return []
