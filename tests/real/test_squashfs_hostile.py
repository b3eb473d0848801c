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

from tests.support.needs import needs
from tests.support.overlays import pack_overlay
from tests.support.programs import program
from tests.support.project import ROOT
from tests.support.samples import sampled
from tests.support.trees import snapshot
from uenvtool.core.errors import BadInput, UenvtoolError
from uenvtool.image.metadata import ENV, PACKED
from uenvtool.image.read import MEMORY_BYTES
from uenvtool.venv.info import image_data
from uenvtool.venv.record import RECORD_IN_IMAGE

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]
RAW = ("-noI", "-noD", "-noF", "-noX")
"""Nothing compressed: a changed byte changes the image's own structures, not only a compressed block."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one that is packed, and two images of it, raw and compressed.

    It has what overlays have: this tool's metadata, links, folders, small and large files.
    """
    folder = tmp_path_factory.mktemp("images")
    source = folder / "source"
    (source / "meta" / "extra").mkdir(parents=True)
    (source / ENV).write_text(json.dumps({"name": "x", "mount": "/x", "views": {}}))
    (source / PACKED).write_text("{}")
    (source / "large").write_bytes(random.Random(0).randbytes(400_000))
    for number in range(30):
        (source / f"folder{number % 3}").mkdir(exist_ok=True)
        (source / f"folder{number % 3}" / f"file{number}").write_text(f"content {number}")
    (source / "link").symlink_to("folder0")
    packed(source, folder / "raw.squashfs", *RAW)
    packed(source, folder / "compressed.squashfs")
    return folder


@pytest.fixture
def source(images: Path, tmp_path: Path) -> Path:
    """That folder, to be changed."""
    return Path(shutil.copytree(images / "source", tmp_path / "source", symlinks=True))


def packed(source: Path, image: Path, *options: str) -> Path:
    subprocess.run(["mksquashfs", source, image, "-quiet", "-no-progress", *options], check=True)
    return image


UNREADABLE, CUT = "image metadata is unreadable", "is not a squashfs image, or is truncated"
HOSTILE = {
    "nested without end": ("[" * 100_000, None, "the file is nested too deeply"),
    "no JSON": ("{", None, UNREADABLE),
    "no UTF-8": ("\udcff", None, UNREADABLE),
    "a number without end": ("1" * 10_000, None, UNREADABLE),
    "a list": ("[]", None, "not written by uenvtool: uenvtool.json must be a table"),
    "packages that are none": ('{"packages": 5}', None, "not written by uenvtool: format must be 1"),
    "a symlink out of it": (Path("/etc/passwd"), None, "is not an image that uenvtool packed"),
    "cut in its first bytes": ("{}", 10, CUT),
    "cut after its first bytes": ("{}", 96, CUT),
    "cut within": ("{}", 5000, CUT),
    "cut at its end": ("{}", -4097, CUT),
}
"""What an image has in the place of all that describes it, how many of its bytes are there, and what is said."""


@pytest.mark.parametrize("case", HOSTILE)
def test_an_image_that_is_none_of_ours_is_refused(case: str, source: Path, tmp_path: Path) -> None:
    described, length, says = HOSTILE[case]
    for name in (ENV, PACKED, RECORD_IN_IMAGE):
        (source / name).unlink(missing_ok=True)
        if isinstance(described, Path):
            (source / name).symlink_to(described)
        else:
            (source / name).write_bytes(described.encode("utf-8", "surrogateescape"))
    image = packed(source, tmp_path / "image.squashfs")
    image.write_bytes(image.read_bytes()[:length])

    with pytest.raises(BadInput, match=rf"{image}\b.*{says}"):
        image_data(image)


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
def test_what_an_image_says_of_itself_is_read_within_little_memory(
    source: Path, tmp_path: Path, megabytes: int
) -> None:
    """60 MB of empty lists are half a megabyte in an image, and were 3 GB as Python's objects."""
    (source / PACKED).write_text('{"a": [' + "[]," * (megabytes * 1_000_000 // 3) + "[]]}")
    image = packed(source, tmp_path / "image.squashfs")

    words = [sys.executable, "-c", MEASURED, image]
    lines = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()

    assert image.stat().st_size < 1_000_000
    assert int(lines[-1]) < 400, lines
    assert ("not an image that uenvtool packed" in lines[0]) == (megabytes == 60)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f'until [ "$1" = -d ]; do shift; done\nexec yes -- "-rw-r--r-- 0/0 1 $2/{"x" * 100_000}"',
            "is not opened: its listing",
        ),
        ("ulimit -v >&2; exit 1", f"unsquashfs failed: {MEMORY_BYTES >> 10}"),
    ],
    ids=["lists without end", "its memory in KiB"],
)
def test_unsquashfs_is_kept_within_bounds(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    program(tmp_path / "bin" / "unsquashfs", text)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")

    with pytest.raises(BadInput, match=says):
        image_data(images / "raw.squashfs")


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


@pytest.mark.parametrize("seed", sampled(range(1000), keep=40))
def test_a_damaged_image_is_refused_or_opened(seed: int, images: Path, tmp_path: Path) -> None:
    """An error of ours, or an answer; nothing outside the folder is touched, and nothing is left of what failed."""
    rounds = random.Random(seed)
    content = bytearray((images / ("raw" if seed % 4 else "compressed")).with_suffix(".squashfs").read_bytes())
    rounds.choice(MUTATIONS)(content, rounds)
    image = tmp_path / "image.squashfs"
    image.write_bytes(content)
    (tmp_path / "file").write_text("mine")
    before = snapshot(tmp_path)

    try:
        image_data(image)
    except UenvtoolError as error:
        assert str(image) in str(error) or "unsquashfs failed" in str(error)  # noqa: PT017
        assert "free space" not in str(error)  # noqa: PT017

    assert snapshot(tmp_path) == before


def test_a_package_with_a_command_for_a_name_is_not_packed(tmp_path: Path) -> None:
    """What follows a line break was a definition of its own, which made mksquashfs run `touch`."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (venv / "bin" / f"x\n{'y'} f 755 0 0 touch owned").write_text(f"#!{venv}/bin/python\n")

    with pytest.raises(BadInput, match="contains a line break"):
        pack_overlay(venv, tmp_path / "a.squashfs")

    assert not os.path.lexists("owned")
    assert not (tmp_path / "a.squashfs").exists()
