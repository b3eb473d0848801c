"""Compare the dependencies of libraries with the output of readelf on this machine."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import sysconfig
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.core import elf

LIBRARIES = [
    Path(sys.executable).resolve(),
    *sorted(Path(sysconfig.get_path("platstdlib"), "lib-dynload").glob("*.so")),
]


@pytest.mark.parametrize("library", LIBRARIES[:20], ids=lambda path: path.name)
def test_what_a_library_needs_is_what_readelf_says(library: Path) -> None:
    listed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    folders = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", listed)

    found = elf.needs(library.read_bytes())

    assert list(found.libraries) == re.findall(r"\(NEEDED\).*\[(.*)\]", listed)
    assert list(found.folders) == [folder for path in folders[:1] for folder in path.split(":")]


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh\n", elf.MAGIC, elf.MAGIC + b"\1" * 100, elf.MAGIC + b"\2\1" + b"\xff" * 90]
)
def test_another_file_needs_nothing(content: bytes) -> None:
    assert elf.needs(content) == elf.Needs()


@given(st.data())
def test_a_damaged_library_needs_something_or_nothing(data: st.DataObject) -> None:
    content = bytearray(LIBRARIES[-1].read_bytes()[:20_000])
    for at in data.draw(st.lists(st.integers(0, 400), max_size=8)):
        content[at] = data.draw(st.integers(0, 255))

    assert isinstance(elf.needs(content), elf.Needs)


def shared_texts(count: int, letters: int) -> bytes:
    """A library that needs `count` others, whose names are ends of one text of so many letters."""
    header, segment = 64, 56
    dynamic = header + 2 * segment
    entries = [(1, letters - number) for number in range(count)] + [(5, dynamic + 16 * (count + 2)), (0, 0)]
    size = dynamic + 16 * len(entries) + letters + 1
    content = (
        elf.MAGIC + b"\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, header, 0, 0, 64, 56, 2, 64, 0, 0)
    )
    content += struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, size, size, 1)
    content += struct.pack("<IIQQQQQQ", 2, 4, dynamic, dynamic, 0, 16 * len(entries), 16 * len(entries), 1)
    content += b"".join(struct.pack("<qQ", *entry) for entry in entries)
    return content + b"x" * letters + b"\0"


def test_names_that_share_a_text_take_no_more_memory_than_the_file() -> None:
    """A squashfs file of some kilobytes can hold a list of names that are all ends of one long text."""
    assert len(elf.needs(shared_texts(3, 100)).libraries) == 3
    hostile = shared_texts(20_000, 400_000)
    tracemalloc.start()

    assert elf.needs(hostile) == elf.Needs()

    assert tracemalloc.get_traced_memory()[1] < 10 * len(hostile)
    tracemalloc.stop()
