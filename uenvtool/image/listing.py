"""Lists the kinds, sizes and names of the entries of an image, with limits on memory and on the size of the listing."""

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
"""The memory limit of unsquashfs. The tables of ten million files need less."""
LARGEST_LISTING = 256 << 20
"""The maximum number of bytes of an image's listing. The listing of two million files is smaller."""
FILE, FOLDER, SYMLINK = "-", "d", "l"
_PIECE_BYTES = 1 << 18


def limits() -> list[str]:
    """Return the options that keep unsquashfs within MEMORY_BYTES. Each of its threads reserves 72 MiB."""
    return ["-processors", str(min(len(os.sched_getaffinity(0)), 16)), "-da", "64", "-fr", "64"]


class Listed(NamedTuple):
    """An entry of an image. A tuple, since an image has many entries.

    kind: the letter of `ls -l`: - (file), d (directory), l (symlink), or another one for devices, pipes and sockets.
    size: in bytes. target: the target of a symlink.
    """

    name: bytes
    kind: str
    size: int
    target: bytes = b""


def listing(image: Path, below: Sequence[str] = ()) -> list[Listed]:
    """Return the entries of an image except its root.

    below: paths in the image; if given, return only the entries below them, and their parent directories. Raises
    ToolMissing if unsquashfs is not installed, and BadInput if the image cannot be read or its listing is larger than
    LARGEST_LISTING.
    """
    token = secrets.token_hex(16).encode()  # marks the start of each name: no name can contain this random text
    command: list[str | Path] = [find_program("unsquashfs"), *limits(), "-lln", "-d", token.decode(), image, *below]
    env = {**os.environ, "TZ": "UTC0"}  # otherwise unsquashfs reads /etc/localtime for every entry
    with damage_reported(image), processes.reading(command, env=env, memory_bytes=MEMORY_BYTES) as stream:
        return list(_entries(_pieces(stream, image), token))


@contextlib.contextmanager
def damage_reported(image: Path) -> Iterator[None]:
    """Raise BadInput, naming the image, if unsquashfs fails inside the block."""
    try:
        yield
    except ToolFailed as error:
        hint = "copy or pack the image again, since it may be damaged"
        raise BadInput(f"{image} cannot be read: {error.problems[0].message}", hint=hint) from error


def by_name(entries: Iterable[Listed]) -> dict[str, Listed]:
    """Return the entries of an image by their name as text. If a name occurs twice, the last entry is used."""
    return {entry.name.decode("utf-8", "surrogateescape"): entry for entry in entries}


def _pieces(stream: BinaryIO, image: Path) -> Iterator[bytes]:
    read = 0
    while piece := stream.read(_PIECE_BYTES):
        read += len(piece)
        if read > LARGEST_LISTING:
            raise BadInput(f"{image} is not opened: its listing is larger than {LARGEST_LISTING >> 20} MiB")
        yield piece


def _entries(pieces: Iterator[bytes], token: bytes) -> Iterator[Listed]:
    """Yield the entries of a listing. A line contains attributes, the token, a name, and the target of a symlink."""
    mark = b" " + token
    attributes, rest = b"", b"\n"
    for piece in chain(pieces, [mark]):  # a final mark ends the last name
        *texts, rest = (rest + piece).split(mark)
        for text in texts:  # a name, a line break, and the attributes of the next entry, which have no line break
            end = text.rfind(b"\n")
            if end > 0 and attributes:  # otherwise this is the root, or text before it
                yield _entry(attributes, text[1:end])
            attributes = text[end + 1 :]


def _entry(attributes: bytes, text: bytes) -> Listed:
    kind, number = attributes[:1], attributes.split(None, 3)[2]
    size = int(number) if number.isdigit() else 0  # a device has two numbers, with a comma
    if kind == b"l":  # the size of a symlink is the length of its target
        return Listed(text[: len(text) - size - len(b" -> ")], SYMLINK, size, text[len(text) - size :])
    return Listed(text, kind.decode(), size)
