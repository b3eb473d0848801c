"""Lists what an image holds, before any of it is written anywhere: kinds, sizes and names, within bounds."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from uenvtool.core import processes
from uenvtool.core.errors import BadInput, ToolFailed
from uenvtool.image.programs import find_program

MEMORY_BYTES = 4 << 30
"""What unsquashfs may use for an image; the tables of ten million files take less."""
LARGEST_LISTING = 256 << 20
"""Bytes of the listing of an image; that of two million files is shorter."""
FILE, FOLDER, SYMLINK = "-", "d", "l"
_PIECE_BYTES = 1 << 18


def limits() -> list[str]:
    """Return options of unsquashfs with which it fits into MEMORY_BYTES: each thread reserves 72 MiB."""
    return ["-processors", str(min(len(os.sched_getaffinity(0)), 16)), "-da", "64", "-fr", "64"]


class Listed(NamedTuple):
    """A name in an image. A tuple, since an image has many.

    kind: as `ls` writes it: - d l, else a device, pipe or socket. size: in bytes. target: a symlink's.
    """

    name: bytes
    kind: str
    size: int
    target: bytes = b""


def listing(image: Path, below: Sequence[str] = ()) -> list[Listed]:
    """Return every name in an image but its root, or only those on the way to and below some.

    Raises ToolMissing without unsquashfs, BadInput if the image cannot be read, or lists more than LARGEST_LISTING.
    """
    token = secrets.token_hex(16).encode()  # no name in the image can have it: so it shows where a name begins
    words: list[str | Path] = [find_program("unsquashfs"), *limits(), "-lln", "-d", token.decode(), image, *below]
    env = {**os.environ, "TZ": "UTC0"}  # with a zone of the machine's it looks at /etc/localtime for every name
    with damage_said_of(image), processes.reading(words, env=env, memory_bytes=MEMORY_BYTES) as stream:
        return list(_entries(_pieces(stream, image), token))


@contextlib.contextmanager
def damage_said_of(image: Path) -> Iterator[None]:
    """Raise BadInput for an image that unsquashfs cannot read to its end."""
    try:
        yield
    except ToolFailed as error:
        reason = error.problems[0].message
        raise BadInput(f"{image} cannot be read: {reason}", hint="it may be damaged: copy or pack it again") from error


def by_name(entries: Iterable[Listed]) -> dict[str, Listed]:
    """Return the names of an image as text, each with what it is; the last one counts of a name that is there twice."""
    return {entry.name.decode("utf-8", "surrogateescape"): entry for entry in entries}


def _pieces(stream: BinaryIO, image: Path) -> Iterator[bytes]:
    read = 0
    while piece := stream.read(_PIECE_BYTES):
        read += len(piece)
        if read > LARGEST_LISTING:
            raise BadInput(f"{image} lists more than {LARGEST_LISTING >> 20} MiB of names; it is not opened")
        yield piece


def _entries(pieces: Iterator[bytes], token: bytes) -> Iterator[Listed]:
    """Yield the names of a listing: each line is attributes, the token, a name, and what a symlink points at."""
    mark = b" " + token
    attributes, rest = b"", b"\n"
    for piece in chain(pieces, [mark]):  # as if one more name followed the last
        *texts, rest = (rest + piece).split(mark)
        for text in texts:  # a name, a line break, and the attributes of the next one, which have no line break
            end = text.rfind(b"\n")
            if end > 0 and attributes:  # else the root, and what comes before it
                yield _entry(attributes, text[1:end])
            attributes = text[end + 1 :]


def _entry(attributes: bytes, text: bytes) -> Listed:
    kind, number = attributes[:1], attributes.split(None, 3)[2]
    size = int(number) if number.isdigit() else 0  # a device has two numbers, with a comma
    if kind == b"l":  # its size is the length of what it points at
        return Listed(text[: len(text) - size - len(b" -> ")], SYMLINK, size, text[len(text) - size :])
    return Listed(text, kind.decode(), size)
