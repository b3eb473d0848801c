"""tools/install: on an old Python, without a network, over a dead environment; everything undone leaves nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.needs import skip_without
from tests.support.project import CACHE

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("single-file")]
WHEELS = CACHE / "wheels-of-single-file"


@pytest.fixture
def home(place: Path) -> Path:
    folder = place / "home"
    folder.mkdir()
    return folder


def run(home: Path, *words: str | Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHON": python}
    command = ["sh", ROOT / "tools" / "install", *words]
    return subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, check=False)


def written(home: Path) -> list[Path]:
    return sorted(home.rglob("*"))


def test_a_run_that_fails_leaves_what_was_there(home: Path, place: Path) -> None:
    (place / "no-wheels").mkdir()

    ran = run(home, place / "no-wheels")

    assert ran.returncode != 0
    assert not [path for path in written(home) if path.is_file()]


def test_another_command_of_that_name_is_not_replaced(home: Path) -> None:
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/uenvtool").write_text("mine")

    ran = run(home)

    assert ran.returncode == 1
    assert "is not of tools/install" in ran.stderr
    assert (home / ".local/bin/uenvtool").read_text() == "mine"


@pytest.mark.slow
def test_it_installs_without_a_network_again_over_a_dead_one_and_goes_away(home: Path, place: Path) -> None:
    wheels = shutil.copytree(WHEELS, place / "wheels") if WHEELS.is_dir() else place
    if not list(wheels.glob("uenvtool-*.whl")):
        skip_without("the wheels of tests/real/test_single_file.py", "run it where an index is")
    command = home / ".local/bin/uenvtool"
    command.parent.mkdir(parents=True)
    command.symlink_to("/gone/bin/uenvtool")

    first = run(home, wheels)
    (venv,) = (home / ".local/share/uenvtool").iterdir()
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to("/user-environment/gone/bin/python3")
    dead = subprocess.run([command, "list"], capture_output=True, text=True, check=False)
    again = run(home, wheels)
    works = subprocess.run([command, "list"], capture_output=True, text=True, check=False)
    gone = run(home, "--uninstall")

    assert first.returncode == 0, first.stderr
    assert "leads to what is not there: it is replaced" in first.stdout
    assert dead.returncode == 3
    assert "its Python is gone: tools/install" in dead.stderr
    assert "/user-environment/gone/bin/python3" in again.stdout, again.stderr
    assert "pytorch-2.6" in works.stdout, works.stderr
    assert gone.returncode == 0, gone.stderr
    assert written(home) == []
