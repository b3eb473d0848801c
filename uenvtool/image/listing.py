"""Lists what an image holds, before any of it is written anywhere: kinds, sizes and names, within bounds."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from uenvtool import tools
from uenvtool.errors import BadInput, ToolFailed

MEMORY_BYTES = 4 << 30
"""What unsquashfs may use for an image; the tables of ten million files take less."""
LARGEST_LISTING = 256 << 20
"""Bytes of the listing of an image; that of two million files is shorter."""
FILE, FOLDER, SYMLINK = "-", "d", "l"
KINDS = {kind.encode(): kind for kind in (FILE, FOLDER, SYMLINK)}
_PIECE_BYTES = 1 << 20


def limits() -> list[str]:
    """Options of unsquashfs with which it fits into MEMORY_BYTES: each thread reserves 72 MiB."""
    return ["-processors", str(min(len(os.sched_getaffinity(0)), 16)), "-da", "64", "-fr", "64"]


class Listed(NamedTuple):
    """A name in an image. A tuple, since an image has many.

    kind: as `ls` writes it: - d l, else a device, pipe or socket. size: in bytes. target: a symlink's.
    """

    name: bytes
    kind: str
    size: int
    target: bytes = b""


def listing(unsquashfs: str, image: Path, below: Sequence[str] = ()) -> list[Listed]:
    """Every name in an image but its root, or only those on the way to and below some names.

    Raises BadInput if the image cannot be read, or lists more than LARGEST_LISTING.
    """
    token = secrets.token_hex(16).encode()  # no name in the image can have it: so it shows where a name begins
    words: list[str | Path] = [unsquashfs, *limits(), "-lln", "-d", token.decode(), image, *below]
    content = b""
    env = {**os.environ, "TZ": "UTC0"}  # with a zone of the machine's it looks at /etc/localtime for every name
    try:
        with tools.reading(words, env=env, memory_bytes=MEMORY_BYTES) as stream:
            pieces: list[bytes] = []
            while piece := stream.read(_PIECE_BYTES):
                pieces.append(piece)
                if len(pieces) * _PIECE_BYTES > LARGEST_LISTING:
                    raise BadInput(f"{image} lists more than {LARGEST_LISTING >> 20} MiB of names; it is not opened")
            content = b"".join(pieces)
    except ToolFailed as error:
        reason = error.problems[0].message
        raise BadInput(f"{image} cannot be read: {reason}", hint="it may be damaged: copy or pack it again") from error
    return list(_entries(content, token))


def _entries(content: bytes, token: bytes) -> Iterator[Listed]:
    """The names of a listing: each line is attributes, the token, a name, and what a symlink points at."""
    before, *rest = content.split(b" " + token)
    attributes = before[before.rfind(b"\n") + 1 :]
    for text in rest:  # a name, a line break, and the attributes of the next one, which have no line break
        end = text.rfind(b"\n")
        kind, number = attributes[:1], attributes.split(None, 3)[2]
        attributes = text[end + 1 :]
        if end <= 0:  # the root
            continue
        size = int(number) if number.isdigit() else 0  # a device has two numbers, with a comma
        if kind == b"l":  # its size is the length of what it points at
            yield Listed(text[1 : end - size - len(b" -> ")], SYMLINK, size, text[end - size : end])
        else:
            yield Listed(text[1:end], KINDS.get(kind) or kind.decode(), size)
