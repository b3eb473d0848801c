"""Test that tools/mutants.py finds changes that no test notices, and restores the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Write
from tests.support.project import ROOT
from tests.support.trees import snapshot

SHAPE = """\
def is_tall(width, height):
    assert isinstance(width, int), f"{width == 1} is no width"
    return height > width
"""
TESTS = """\
from uenvtool.room.shape import is_tall

def test_is_tall():
    assert is_tall(1, 2) is True
    assert is_tall(2, 1) is False
"""


pytestmark = pytest.mark.slow  # each change is a run of pytest


def mutants(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools" / "mutants.py", "--workers", "1", *words]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def test_the_change_that_no_test_notices_is_told_with_its_place(write: Write, place: Path) -> None:
    write("uenvtool/__init__.py", "")
    shape = write("uenvtool/room/shape.py", SHAPE)
    write("tests/room/test_shape.py", TESTS)
    before = shape.stat()

    ran = mutants(place, "uenvtool/room", "--each", "99")

    *survivors, score = ran.stdout.splitlines()
    assert survivors == ["uenvtool/room/shape.py:3: height > width  ->  (height >= width)"], ran.stderr
    assert score == "the tests noticed 1 of 2 changes"
    assert (shape.read_text(), shape.stat().st_mtime_ns) == (SHAPE, before.st_mtime_ns)


def test_no_score_without_tests_that_pass(write: Write, place: Path) -> None:
    write("uenvtool/room/shape.py", SHAPE)
    write("tests/room/test_shape.py", "def test_is_tall():\n    assert False\n")
    before = snapshot(place)

    ran = mutants(place, "uenvtool/room/shape.py")

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "the tests fail without any change: tests/room\n"
    assert {name: text for name, text in snapshot(place).items() if "__pycache__" not in name} == before
