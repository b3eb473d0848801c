"""Reads untrusted files and URLs safely: rejects content that is too large, and files that are not regular."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from uenvtool.core.errors import BadInput, Position, ToolFailed

LAST_BYTES = 16 << 10
LAST_LINES = 12
DOWNLOAD_SECONDS = 30
"""The timeout of a download."""
DOWNLOAD_HINT = "download the file and name it instead of the URL"
_STREAM = re.compile(r"/dev/std(in|out|err)|/dev/fd/\d+|/proc/self/fd/\d+")


@contextlib.contextmanager
def opened(path: Path, shown: str = "") -> Iterator[BinaryIO]:
    """Yield a regular file, open for reading.

    shown: its name in error messages. Raises FileNotFoundError if it does not exist, and BadInput if it is not a
    regular file (see `is_file`) or cannot be read.
    """
    place = Position(shown or str(path))
    try:
        # Without O_NONBLOCK, opening a pipe that has no writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise _unreadable(error, place, "check its permissions and its link target with `ls -l`") from error
    try:
        status = os.fstat(descriptor)
        if not _is_file(status):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise BadInput(f"this is {kind}", place, "name a regular file")
        with open(descriptor, "rb", closefd=False) as stream:
            yield stream
    except OSError as error:
        if error.filename is not None:  # the error is about another file
            raise
        raise _unreadable(error, place, "check its disk, or the image that it is mounted from, for damage") from error
    finally:
        with contextlib.suppress(OSError):  # closing a file that was only read loses nothing
            os.close(descriptor)


@contextlib.contextmanager
def opened_named(path: Path) -> Iterator[BinaryIO]:
    """Yield a file or stream that the user names, open for reading. Raises the errors of `opened`."""
    if not is_stream(path):
        with opened(path) as stream:
            yield stream
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise _unreadable(error, Position(str(path)), "name a file, or a stream that is open") from error
    with stream:
        yield stream


def _unreadable(error: OSError, place: Position, hint: str) -> BadInput:
    return BadInput(f"cannot read the file: {error.strerror}", place, hint)


def is_file(path: Path) -> bool:
    """Return whether a path leads to a regular file outside /proc. Pipes, devices and files of /proc may never end."""
    with contextlib.suppress(OSError, ValueError):
        return _is_file(path.stat())
    return False


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_dev != os.stat("/proc").st_dev


def read_bytes(path: Path, most: int) -> bytes:
    """Return the content of a regular file. Raises the errors of `opened`, and BadInput if it is larger than `most`."""
    with opened(path) as stream:
        return _all(stream, path, most)


def is_stream(path: Path) -> bool:
    """Return whether a path is an open file of this process, such as a pipe: `-r <(...)`, `-r /dev/stdin`."""
    return _STREAM.fullmatch(str(path)) is not None


def read_named(path: Path, most: int) -> bytes:
    """Return the whole content of a file or pipe that the user names. Raises the errors of `read_bytes`."""
    with opened_named(path) as stream:
        return _all(stream, path, most)


def _all(stream: BinaryIO, path: Path, most: int) -> bytes:
    content = stream.read(most + 1)
    if len(content) > most:
        raise BadInput(f"larger than {most / 1e6:g} MB", Position(str(path)), "name a smaller file")
    return content


def fetched(url: str, most: int) -> bytes:
    """Return the content of an http or https URL, which may have at most this number of bytes.

    The environment sets the proxy and the certificates (https_proxy, SSL_CERT_FILE). Raises BadInput if the content is
    too large or the URL has another scheme, and ToolFailed if the download fails.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    if not url.lower().startswith(("http://", "https://")):
        raise BadInput("only http and https URLs are supported", hint=DOWNLOAD_HINT)
    try:
        # Never opens a local file (file:): the scheme is checked above, and urllib refuses to follow a redirect to one.
        with urlopen(url, timeout=DOWNLOAD_SECONDS) as answer:  # noqa: S310  see above
            content: bytes = answer.read(most + 1)
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise ToolFailed(f"the download failed: {getattr(why, 'strerror', None) or why}", hint=DOWNLOAD_HINT) from error
    if len(content) > most:
        raise BadInput(f"larger than {most / 1e6:g} MB", hint=DOWNLOAD_HINT)
    return content


def last_lines(path: Path) -> list[str]:
    """Return the last lines of a log, which usually contain the error; an empty list if it cannot be read."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - LAST_BYTES))
            return stream.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:]
    except OSError:
        return []
