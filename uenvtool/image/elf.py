"""Reads what a library or program needs: the dynamic section of an ELF file (gABI, chapters 4 and 5)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"\x7fELF"
Content = bytes | bytearray | mmap.mmap
_LOAD, _DYNAMIC = 1, 2
_END, _NEEDED, _STRTAB, _RPATH, _RUNPATH = 0, 1, 5, 15, 29


@dataclass(frozen=True, slots=True)
class Needs:
    """The names of the libraries that a file needs, and the folders where it has them looked for first."""

    libraries: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def needs_of(path: str) -> Needs:
    """What the file of that path needs, of which only what says so is read; nothing if it cannot be read."""
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return needs(content)
    except (OSError, ValueError):  # ValueError: it is empty
        return Needs()


def needs(content: Content) -> Needs:
    """What an ELF file of 64 bits needs; nothing if it is another file, or damaged."""
    try:
        return _needs(content)
    except (struct.error, ValueError, IndexError, OverflowError):
        return Needs()


def _needs(content: Content) -> Needs:
    if content[:5] != MAGIC + b"\2":
        return Needs()
    order = "<" if content[5] == 1 else ">"
    segments = list(_segments(content, order))
    dynamic = next(((start, size) for kind, start, _, size in segments if kind == _DYNAMIC), None)
    if dynamic is None:
        return Needs()
    values = list(_dynamic(content, order, *dynamic))
    texts = sum(_offset(segments, value) for tag, value in values if tag == _STRTAB)
    found = {tag: [_text(content, texts + value) for known, value in values if known == tag] for tag in _TEXTS}
    paths = found[_RUNPATH] or found[_RPATH]
    return Needs(tuple(found[_NEEDED]), tuple(folder for path in paths for folder in path.split(":") if folder))


_TEXTS = (_NEEDED, _RPATH, _RUNPATH)


def _segments(content: Content, order: str) -> Iterator[tuple[int, int, int, int]]:
    """Kind, offset, address and size in the file of each segment."""
    (start,) = struct.unpack_from(order + "Q", content, 32)
    size, count = struct.unpack_from(order + "HH", content, 54)
    for number in range(count):
        at = start + number * size
        kind, _, offset, address, _, length = struct.unpack_from(order + "IIQQQQ", content, at)
        yield kind, offset, address, length


def _dynamic(content: Content, order: str, start: int, size: int) -> Iterator[tuple[int, int]]:
    for at in range(start, start + size, 16):
        tag, value = struct.unpack_from(order + "qQ", content, at)
        if tag == _END:
            return
        yield tag, value


def _offset(segments: list[tuple[int, int, int, int]], address: int) -> int:
    """Where in the file an address lies. Raises ValueError if no segment has it."""
    for kind, offset, start, size in segments:
        if kind == _LOAD and start <= address < start + size:
            return offset + address - start
    raise ValueError(f"no segment has the address {address}")


def _text(content: Content, start: int) -> str:
    end = content.find(b"\0", start)
    if end < 0:
        raise ValueError("a text has no end")
    return content[start:end].decode("utf-8", "surrogateescape")
