"""Reads the fields of a 64-bit ELF file that the dynamic loader uses (gABI, chapters 4 and 5).

pyelftools creates an object for each symbol. It is too slow for libraries such as libtorch, whose symbols `venv`
compares.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"\x7fELF"
Content = bytes | bytearray | mmap.mmap
_LOAD, _DYNAMIC = 1, 2
_SYMBOLS = 11
_END, _NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH = 0, 1, 5, 14, 15, 29
_WEAK = 2


@dataclass(frozen=True, slots=True)
class Needs:
    """The dependencies and the symbols of a library or program.

    libraries: the required libraries (DT_NEEDED). folders: the directories that the loader searches for them (RPATH,
    RUNPATH). is_late: whether the loader searches LD_LIBRARY_PATH before these directories (RUNPATH). soname: the
    library's own name for the loader (DT_SONAME). defined: the symbols that it defines. undefined: the symbols that
    other libraries must define, without weak symbols. Symbols are bytes, as the loader compares them.
    """

    libraries: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    is_late: bool = False
    soname: str = ""
    defined: frozenset[bytes] = frozenset()
    undefined: frozenset[bytes] = frozenset()


def needs_of(path: str, *, symbols: bool = False) -> Needs:
    """Return the dependencies of a file; empty if it is not a readable ELF file. symbols: also read its symbols."""
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return needs(content, symbols=symbols)
    except (OSError, ValueError):  # ValueError: the file is empty
        return Needs()


def needs(content: Content, *, symbols: bool = False) -> Needs:
    """Return the dependencies in the content of a 64-bit ELF file; empty if the file is damaged or of another kind."""
    try:
        return _needs(content, symbols) if content[:5] == MAGIC + b"\2" else Needs()
    except (struct.error, ValueError, IndexError, OverflowError):
        return Needs()


class _Texts:
    """The strings of a string table, each read once. Only in a malicious file is their total larger than the file."""

    def __init__(self, content: Content, start: int) -> None:
        self._content, self._start, self._left = content, start, len(content)
        self._known: dict[int, bytes] = {}

    def at(self, offset: int) -> bytes:
        if offset not in self._known:
            start = self._start + offset
            end = self._content.find(b"\0", start, start + self._left)
            if end < 0:
                raise ValueError("a string is not terminated, or the strings are larger than the file")
            self._known[offset] = bytes(self._content[start:end])
            self._left -= end - start
        return self._known[offset]


def _needs(content: Content, symbols: bool) -> Needs:
    order = "<" if content[5] == 1 else ">"
    segments = list(_segments(content, order))
    dynamic = next(((start, size) for kind, start, _, size in segments if kind == _DYNAMIC), None)
    if dynamic is None:
        return Needs()
    values = list(_dynamic(content, order, *dynamic))
    texts = _Texts(content, sum(_offset(segments, value) for tag, value in values if tag == _STRTAB))

    def named(wanted_tag: int) -> list[str]:
        offsets = dict.fromkeys(value for tag, value in values if tag == wanted_tag)
        return [texts.at(offset).decode("utf-8", "surrogateescape") for offset in offsets]

    paths = named(_RUNPATH) or named(_RPATH)
    defined, undefined = _symbols(content, order, texts) if symbols else (frozenset(), frozenset())
    return Needs(
        libraries=tuple(named(_NEEDED)),
        folders=tuple(folder for path in paths for folder in path.split(":") if folder),
        is_late=bool(named(_RUNPATH)),
        soname="".join(named(_SONAME)[:1]),
        defined=defined,
        undefined=undefined,
    )


def _segments(content: Content, order: str) -> Iterator[tuple[int, int, int, int]]:
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


def _symbols(content: Content, order: str, texts: _Texts) -> tuple[frozenset[bytes], frozenset[bytes]]:
    (start,) = struct.unpack_from(order + "Q", content, 40)
    entry, count = struct.unpack_from(order + "HH", content, 58)
    defined, undefined = set(), set()
    for number in range(count):
        _, kind, _, _, offset, size = struct.unpack_from(order + "IIQQQQ", content, start + number * entry)
        if kind == _SYMBOLS:
            for name, info, _, section, _, _ in struct.iter_unpack(order + "IBBHQQ", content[offset : offset + size]):
                if section:
                    defined.add(texts.at(name))
                elif info >> 4 != _WEAK:
                    undefined.add(texts.at(name))
    return frozenset(defined), frozenset(undefined - {b""})


def _offset(segments: list[tuple[int, int, int, int]], address: int) -> int:
    for kind, offset, start, size in segments:
        if kind == _LOAD and start <= address < start + size:
            return offset + address - start
    raise ValueError(f"no segment contains the address {address}")
