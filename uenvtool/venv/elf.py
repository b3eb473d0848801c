"""Reads of a shared library what the dynamic loader goes by: what it needs, gives and takes.

The layout is that of the ELF specification (refspecs.linuxfoundation.org/elf/gabi4+), 64 bits and little endian,
as all machines here have it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_IDENT = b"\x7fELF\x02\x01"
_DYNAMIC, _DYNAMIC_SYMBOLS = 6, 11
_NEEDED, _SONAME = 1, 14
_WEAK = 2
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC_ENTRY = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A shared library.

    soname: its own name for the loader, empty if it has none. needed: the libraries that are loaded with it.
    defined: the symbols that it gives. undefined: those that it takes from others and cannot do without.
    """

    soname: str
    needed: tuple[str, ...]
    defined: frozenset[bytes]
    undefined: frozenset[bytes]


def read_library(path: str) -> Library | None:
    """A shared library; None if the file is not one that can be read here.

    Names are bytes, as the loader compares them.
    """
    try:
        with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _library(data)
    except (OSError, ValueError, struct.error, IndexError):
        return None  # gone, empty, cut short: Python could not load it either


def _library(data: mmap.mmap) -> Library | None:
    if data[:6] != _IDENT:
        return None
    sections = list(_sections(data))
    soname, needed = "", []
    defined, undefined = set(), set()
    for kind, offset, size, link in sections:
        if kind not in (_DYNAMIC, _DYNAMIC_SYMBOLS):
            continue
        _, names_offset, names_size, _ = sections[link]
        names = data[names_offset : names_offset + names_size]
        if kind == _DYNAMIC:
            for tag, value in _DYNAMIC_ENTRY.iter_unpack(data[offset : offset + size]):
                if tag == _NEEDED:
                    needed.append(_text(names, value).decode(errors="replace"))
                elif tag == _SONAME:
                    soname = _text(names, value).decode(errors="replace")
        else:
            for name, info, _, section, _, _ in _SYMBOL.iter_unpack(data[offset : offset + size]):
                if section:
                    defined.add(_text(names, name))
                elif info >> 4 != _WEAK:
                    undefined.add(_text(names, name))
    undefined.discard(b"")
    return Library(soname=soname, needed=tuple(needed), defined=frozenset(defined), undefined=frozenset(undefined))


def _sections(data: mmap.mmap) -> Iterator[tuple[int, int, int, int]]:
    """Kind, offset, size and linked section of each."""
    header = _HEADER.unpack_from(data)
    start, entry_bytes, count = header[5], header[10], header[11]
    for index in range(count):
        _, kind, _, _, offset, size, link, *_ = _SECTION.unpack_from(data, start + index * entry_bytes)
        yield kind, offset, size, link


def _text(names: bytes, offset: int) -> bytes:
    return names[offset : names.index(b"\0", offset)]
