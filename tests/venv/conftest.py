"""Fixtures of overlay tests: a base with a vendor's torch, and commands that must succeed."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Answer, Cli, Loaded
from tests.support.overlays import BaseHere, install, wheel

TORCH = "2.6.0a0+d883142"


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    """Returns a base with a vendor's torch."""
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", TORCH))
    return found


@dataclass(frozen=True)
class Begun:
    """One directory for all tests of a module, and a copy of its content after `make` ran in it.

    An overlay names its base and itself by absolute paths. Each test therefore gets the copy at the path where the
    overlay was made.
    """

    folder: Path
    copy: Path

    def emptied(self) -> Path:
        """Return the directory after removing the files of the previous test."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        return self.folder

    def fill(self, make: Callable[[], object]) -> None:
        """Fill the directory: with `make` for the first test, from the copy for later tests."""
        words = ["cp", "-a", "--remove-destination"]
        if self.copy.is_dir():
            subprocess.run([*words, f"{self.copy}/.", self.folder], check=True)
        else:
            make()
            subprocess.run([*words, self.folder, self.copy], check=True)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """Returns the directory of all tests of a module, which defines `tmp_path` with it."""
    folder = tmp_path_factory.mktemp("begun")
    return Begun(folder / "test", folder / "copy")


@pytest.fixture
def done(cli: Cli) -> Cli:
    """Runs the command line and asserts that it succeeds."""

    def call(*arguments: str | Path) -> Answer:
        answer = cli(*arguments)
        assert answer.code == 0, answer.stderr
        return answer

    return call


def record(folder: str | Path) -> Any:
    """Return the record of an overlay."""
    return json.loads(Path(folder, ".uenvtool/uenvtool.json").read_text())
