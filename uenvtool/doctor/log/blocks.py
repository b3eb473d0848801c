"""Reader that splits a plain, UTF-16, gzip-compressed or truncated log into blocks, so that memory use is constant.

Each block begins at the start of a line, or inside a line that is longer than a block. Each offset in the log belongs
to exactly one block, which also contains the next AHEAD_BYTES of the log.
"""

from __future__ import annotations

import codecs
import functools
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

BLOCK_BYTES = 1 << 22
AHEAD_BYTES = 1 << 15
"""The number of bytes after its own range that a block contains, for the rest of a line and the lines after it."""
BEFORE_BYTES = 1 << 12
"""The number of bytes before its own range that a block contains if the range begins inside a long line."""
PIECE_BYTES = 1 << 14
GZIP_MAGIC = b"\x1f\x8b"
_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
"""Matches escape sequences that set colours or move the cursor (ECMA-48, 5.4)."""
NULS = bytes(16)
"""The NUL bytes that replace a longer sequence. A file that was truncated while it was written may contain millions."""
_NULS = re.compile(rb"\0{16,}")
_WRAPPED_NOTE = re.compile(rb"(?m)^ {4}\+ CategoryInfo [^\r\n]* (?=\r?\n)")
"""Matches PowerShell's note on an error, cut and padded to the width of its console, at which it wraps all errors."""
_PADDING = re.compile(rb" {2,}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A part of a log.

    line, offset: the line number and byte offset of the data in the log.
    start, end: the range of the data that belongs only to this block.
    is_cut: whether the data begins inside a line.
    """

    data: bytes
    line: int
    offset: int
    start: int
    end: int
    is_cut: bool = False

    def last_bytes(self, most: int) -> Block:
        """Return the block with at most the given number of bytes at its end."""
        cut = max(len(self.data) - most, 0)
        line = self.line + self.data.count(b"\n", 0, cut)
        is_cut = self.data[cut - 1 : cut] != b"\n" if cut else self.is_cut
        return replace(self, data=self.data[cut:], line=line, offset=self.offset + cut, is_cut=is_cut)


def blocks(stream: BinaryIO) -> Iterator[Block]:
    """Yield the blocks of a log without escape sequences and long sequences of NUL bytes.

    Raises EOFError after the last block of a damaged gzip file, and OSError if the rest of a file cannot be read.
    """
    data, line, offset, start, is_cut = b"", 1, 0, 0, False
    failure: Exception | None = None
    try:
        for part in _parts(stream):
            text = _ESCAPES.sub(b"", part) if b"\x1b" in part else part
            data += _NULS.sub(NULS, text) if NULS in text else text
            del part, text  # their memory is free while the block is read
            end = len(data) - AHEAD_BYTES
            if end <= start:
                continue
            yield Block(data=data, line=line, offset=offset, start=start, end=end, is_cut=is_cut)
            line_start = data.rfind(b"\n", 0, end) + 1
            kept = max(line_start, end - BEFORE_BYTES)
            is_cut = kept > line_start
            line += data.count(b"\n", 0, kept)
            data, offset, start = data[kept:], offset + kept, end - kept
    except (OSError, EOFError) as error:
        failure = error
    if len(data) > start:
        yield Block(data=data, line=line, offset=offset, start=start, end=len(data), is_cut=is_cut)
    if failure:
        raise failure


def _parts(stream: BinaryIO) -> Iterator[bytes]:
    first, parts = _peeked(iter(functools.partial(stream.read, BLOCK_BYTES), b""))
    # a generator would keep the part while its block is read
    return map(_Wrapping().undone, _as_utf8(_decompressed(parts) if first.startswith(GZIP_MAGIC) else parts))


@dataclass(slots=True)
class _Wrapping:
    """The lines that PowerShell wrapped at the width of its console, from its first note on an error.

    PowerShell breaks a line after a space, or a long word at the width.
    """

    lines: re.Pattern[bytes] | None = None

    def undone(self, part: bytes) -> bytes:
        """Return a part of a log with each wrapped line in one piece. Blank lines replace the other pieces."""
        if b"\r" in part and b"+ CategoryInfo " in part and (note := _WRAPPED_NOTE.search(part)):
            width = len(note[0])
            self.lines = re.compile(
                rb"(?m)^(?:(?=[^\r\n]*\S)(?:[^\r\n]{%d}\r?\n(?! )|[^\r\n]{0,%d} \r?\n))+[^\r\n]+\r?\n?"
                % (width, width - 1)
            )
        return self.lines.sub(_joined, part) if self.lines else part


def _joined(match: re.Match[bytes]) -> bytes:
    line = match[0].replace(b"\r", b"").replace(b"\n", b"")
    is_note = line.startswith(b"    + ")
    return (b"    " + _PADDING.sub(b"", line) if is_note else line) + b"\n" * match[0].count(b"\n")


def _as_utf8(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Return the parts of a file, converted to UTF-8 if the file is UTF-16 with a byte order mark, as in PowerShell."""
    first, parts = _peeked(parts)
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return parts
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    return (decoder.decode(part).encode() for part in parts)


def _peeked(parts: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first part, and all parts."""
    first = next(parts, b"")
    return first, itertools.chain(iter([first]), parts)  # this iterator releases the part after its use


def _decompressed(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a gzip file with one or more members. Data after the last member is ignored."""
    member, data, packed = zlib.decompressobj(wbits=31), b"", b""
    # the pieces are small because zlib copies the rest of a piece after each member
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
        raise EOFError("the gzip file is truncated")
