"""A log as blocks of bytes, in constant memory: plain, compressed with gzip, or cut off.

Each block begins at the start of a line, or within one that is longer than a block. A place in the log belongs to
one block alone; what lies behind it, up to AHEAD_BYTES, is in that block too.
"""

from __future__ import annotations

import functools
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK_BYTES = 1 << 22
AHEAD_BYTES = 1 << 15
"""What a block holds behind the places that belong to it: a line, and the next ones."""
BEFORE_BYTES = 1 << 12
"""What a block holds before them within a line that is longer than a block."""
PIECE_BYTES = 1 << 14
GZIP_MAGIC = b"\x1f\x8b"
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
"""What colours text and moves the cursor (ECMA-48, 5.4)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A part of a log.

    line, offset: the number of its first line, and of its first byte. start, end: whose places belong to it. is_cut: it
    begins within a line.
    """

    data: bytes
    line: int
    offset: int
    start: int
    end: int
    is_cut: bool = False


def blocks(stream: BinaryIO) -> Iterator[Block]:
    """Yield the blocks of a log without colour codes.

    Raises EOFError at the end of a gzip file that is cut off, and OSError where no more of a file can be read.
    """
    data, line, offset, start, is_cut = b"", 1, 0, 0, False
    failure: Exception | None = None
    try:
        for part in _parts(stream):
            data += _ESCAPES.sub(b"", part) if b"\x1b" in part else part
            end = len(data) - AHEAD_BYTES
            if end <= start:
                continue
            yield Block(data=data, line=line, offset=offset, start=start, end=end, is_cut=is_cut)
            begun = data.rfind(b"\n", 0, end) + 1
            kept = max(begun, end - BEFORE_BYTES)
            is_cut = kept > begun
            line += data.count(b"\n", 0, kept)
            data, offset, start = data[kept:], offset + kept, end - kept
    except (OSError, EOFError) as error:
        failure = error
    if len(data) > start:
        yield Block(data=data, line=line, offset=offset, start=start, end=len(data), is_cut=is_cut)
    if failure:
        raise failure


def _parts(stream: BinaryIO) -> Iterator[bytes]:
    """Return what the stream holds, unpacked if it begins as a gzip file does."""
    first = stream.read(BLOCK_BYTES)
    parts = itertools.chain([first], iter(functools.partial(stream.read, BLOCK_BYTES), b""))
    return _unpacked(parts) if first.startswith(GZIP_MAGIC) else parts


def _unpacked(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a gzip file of one member or several; what is behind the last one is left aside.

    It is unpacked in small pieces: behind each member zlib copies what is left of one.
    """
    member, data, packed = zlib.decompressobj(wbits=31), b"", b""
    for piece in (part[at : at + PIECE_BYTES] for part in parts for at in range(0, len(part), PIECE_BYTES)):
        packed += piece
        while packed:
            if member.eof:
                if len(packed) < len(GZIP_MAGIC):
                    break
                if not packed.startswith(GZIP_MAGIC):
                    yield data
                    return
                member = zlib.decompressobj(wbits=31)
            try:
                data += member.decompress(packed, BLOCK_BYTES)
            except zlib.error as error:
                yield data
                raise EOFError("the gzip file is damaged") from error
            packed = member.unused_data if member.eof else member.unconsumed_tail
            if len(data) >= BLOCK_BYTES:
                yield data
                data = b""
    yield data
    if not member.eof:
        raise EOFError("the gzip file is cut off")
