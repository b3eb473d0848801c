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
from tests.support.pythons import PYENV

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("single-file")]
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


@pytest.mark.parametrize("version", ["3.6", "3.9"])
def test_an_old_python_is_told_which_one_is_needed_and_leaves_nothing(home: Path, version: str) -> None:
    old = next(iter(PYENV.glob(f"{version}.*/bin/python3")), None)
    if old is None:
        skip_without(f"Python {version}", f"`pyenv install {version}`")

    ran = run(home, python=str(old))

    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"uenvtool: needs Python 3.10 to 3.14; {old} is {version}, get one with `module load")
    assert written(home) == []


def test_a_python_that_cannot_make_an_environment_is_told_what_it_lacks(home: Path, place: Path) -> None:
    python = place / "python3"  # as Debian's, until python3-venv is there
    lacks = "import sys; sys.modules['ensurepip'] = None"
    python.write_text(f'#!/bin/sh\nshift 2\ncode="{lacks}\n$1"\nshift\nexec {sys.executable} -I -c "$code" "$@"\n')
    python.chmod(0o755)

    ran = run(home, python=str(python))

    assert ran.returncode == 1
    needs, remedy = ran.stderr.splitlines()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert needs.startswith(
        f"uenvtool: needs Python 3.10 to 3.14; {python} is {version}-without-ensurepip, get one with"
    )
    assert remedy == "uenvtool: on Debian and Ubuntu, `apt install python3-venv` will do"
    assert written(home) == []


@pytest.mark.parametrize(
    "first",
    ["/usr/bin/python3 3.6 /usr", "/user-environment/env/default/bin/python3 3.11 /usr", "/a 3.13 /user-environment"],
)
def test_a_python_that_is_too_old_or_a_uenvs_is_passed_over_where_none_is_named(place: Path, first: str) -> None:
    programs = {"python3": first, "python3.14": "/opt/python/bin/python3.14 3.14 /opt/python"}
    for name, answer in programs.items():
        (place / name).write_text(f"#!/bin/sh\necho {answer}\n")
        (place / name).chmod(0o755)

    find = f"set -eu; . {ROOT}/tools/python.sh; find_python; echo $python"
    env = {"PATH": f"{place}:/usr/bin:/bin", "HOME": str(place)}
    found = subprocess.run(["sh", "-c", find], env=env, capture_output=True, text=True, check=False)

    assert (found.stdout, found.stderr) == ("/opt/python/bin/python3.14\n", "")


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
