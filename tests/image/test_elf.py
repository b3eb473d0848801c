"""What libraries need, beside what readelf says of this machine's own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.image import elf

LIBRARIES = [
    Path(sys.executable).resolve(),
    *sorted(Path(sysconfig.get_path("platstdlib"), "lib-dynload").glob("*.so")),
]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf; apt install binutils")
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
