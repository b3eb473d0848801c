"""Images that others made: too large, damaged, of other owners. They are refused or opened, nothing else happens."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.overlays import pack_overlay
from tests.support.samples import sampled
from uenvtool.core.errors import BadInput, UenvtoolError
from uenvtool.core.files import places
from uenvtool.image import listing
from uenvtool.image.metadata import ENV, PACKED
from uenvtool.venv.info import image_data

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="no mksquashfs; apt install squashfs-tools"),
]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for what is in memory that no other run uses."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(places, "MEMORY", folder)
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder that is packed by hand, with the metadata of an image of this tool's."""
    folder = tmp_path / "source"
    (folder / "meta" / "extra").mkdir(parents=True)
    (folder / ENV).write_text(json.dumps({"name": "x", "mount": "/x", "views": {}}))
    (folder / PACKED).write_text("{}")
    (folder / "program").write_text("#!/bin/sh\n")
    return folder


def packed(source: Path, *options: str) -> Path:
    image = source.with_suffix(".squashfs")
    subprocess.run(["mksquashfs", source, image, "-quiet", "-no-progress", "-noappend", *options], check=True)
    return image


MEASURED = """
import re, resource, sys
from pathlib import Path
from uenvtool.core.errors import BadInput
from uenvtool.venv.info import image_data
try:
    image_data(Path(sys.argv[1]))
except BadInput as error:
    print(error)
status = Path('/proc/self/status').read_text()  # ru_maxrss begins with the parent's
own = int(re.search(r'VmHWM:\\s+(\\d+)', status)[1])
print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) >> 10)
"""


@pytest.mark.parametrize("megabytes", [7, 60])
def test_what_an_image_says_of_itself_is_read_within_little_memory(source: Path, megabytes: int) -> None:
    """60 MB of empty lists are half a megabyte in an image, and were 3 GB as Python's objects."""
    (source / PACKED).write_text('{"a": [' + "[]," * (megabytes * 1_000_000 // 3) + "[]]}")
    image = packed(source)

    words = [sys.executable, "-c", MEASURED, image]
    lines = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()

    assert image.stat().st_size < 600_000
    assert int(lines[-1]) < 400, lines
    assert ("not an image that uenvtool packed" in lines[0]) == (megabytes == 60)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "\udcff", "[]", '{"packages": 5}', "1" * 10_000])
def test_metadata_that_is_no_metadata_is_an_error_or_nothing(source: Path, text: str) -> None:
    for name in (ENV, PACKED, "meta/extra/uenvtool.json"):
        (source / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    image = packed(source)

    try:
        assert image_data(image)["packages"] == []
    except BadInput as error:
        assert str(image) in str(error)  # noqa: PT017


def test_a_listing_without_end_is_not_read(source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    image = packed(source)
    monkeypatch.setattr(listing, "LARGEST_LISTING", 0)

    with pytest.raises(BadInput, match="not opened"):
        image_data(image)


def test_unsquashfs_gets_no_more_memory_than_an_image_needs(
    source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = packed(source)
    monkeypatch.setattr(listing, "MEMORY_BYTES", 1 << 20)

    with pytest.raises(BadInput, match="cannot be read"):
        image_data(image)


RAW = ("-noI", "-noD", "-noF", "-noX")
"""Nothing compressed: a changed byte changes the image's own structures, not only a compressed block."""


def truncated(content: bytearray, rounds: random.Random) -> None:
    del content[rounds.randrange(len(content)) :]


def bytes_changed(content: bytearray, rounds: random.Random) -> None:
    for _ in range(rounds.randint(1, 12)):
        content[rounds.randrange(len(content))] = rounds.randrange(256)


def tables_changed(content: bytearray, rounds: random.Random) -> None:
    """The inodes and folders, which lie between the data and the end: kinds, sizes, places, names."""
    start = int.from_bytes(content[64:72], "little")
    for _ in range(rounds.randint(1, 6)):
        content[rounds.randrange(start, len(content))] ^= 1 << rounds.randrange(8)


def head_changed(content: bytearray, rounds: random.Random) -> None:
    for _ in range(rounds.randint(1, 3)):
        content[rounds.randrange(4, 96)] = rounds.choice([0, 1, 0x7F, 0x80, 0xFF, rounds.randrange(256)])


def piece_copied(content: bytearray, rounds: random.Random) -> None:
    length = rounds.randint(1, 64)
    source, target = rounds.randrange(len(content)), rounds.randrange(len(content))
    content[target : target + length] = content[source : source + length]


MUTATIONS = (truncated, bytes_changed, tables_changed, head_changed, piece_copied)
SEEDS = sampled(range(1000), keep=40)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, bytes]:
    """An image with what overlays have: links, folders, small and large files; raw, and compressed."""
    folder = tmp_path_factory.mktemp("pristine")
    source = folder / "source"
    (source / "meta" / "extra").mkdir(parents=True)
    (source / ENV).write_text(json.dumps({"name": "x", "mount": "/x", "views": {}}))
    (source / PACKED).write_text("{}")
    (source / "large").write_bytes(random.Random(0).randbytes(400_000))
    for number in range(30):
        (source / f"folder{number % 3}").mkdir(exist_ok=True)
        (source / f"folder{number % 3}" / f"file{number}").write_text(f"content {number}")
    (source / "link").symlink_to("folder0")
    found = {}
    for raw in (True, False):
        image = folder / f"{raw}.squashfs"
        subprocess.run(["mksquashfs", source, image, "-quiet", "-no-progress", *(RAW if raw else ())], check=True)
        found[raw] = image.read_bytes()
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_image_is_refused_or_opened(seed: int, pristine: dict[bool, bytes], tmp_path: Path) -> None:
    """An error of ours, or an answer; nothing outside the folder is touched, and nothing is left of what failed."""
    rounds = random.Random(seed)
    content = bytearray(pristine[seed % 4 != 0])
    rounds.choice(MUTATIONS)(content, rounds)
    image = tmp_path / "image.squashfs"
    image.write_bytes(content)
    (tmp_path / "file").write_text("mine")
    before = names(tmp_path)

    try:
        image_data(image)
    except UenvtoolError as error:
        assert str(image) in str(error) or "unsquashfs failed" in str(error)  # noqa: PT017
        assert "free space" not in str(error)  # noqa: PT017

    assert names(tmp_path) == before
    assert (tmp_path / "file").read_text() == "mine"
    assert list((tmp_path / "memory").iterdir()) == []


def names(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))


def test_a_package_with_a_command_for_a_name_is_not_packed(tmp_path: Path) -> None:
    """What follows a line break was a definition of its own, which made mksquashfs run `touch`."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (venv / "bin" / f"x\n{'y'} f 755 0 0 touch owned").write_text(f"#!{venv}/bin/python\n")

    with pytest.raises(BadInput, match="has a line break in its name"):
        pack_overlay(venv, tmp_path / "a.squashfs")

    assert not os.path.lexists("owned")
    assert not (tmp_path / "a.squashfs").exists()
