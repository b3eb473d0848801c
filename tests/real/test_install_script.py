"""Test tools/install with an old Python, without a network, and over a broken environment, and --uninstall."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.index import fail_or_skip_without_index
from tests.support.needs import skip_without
from tests.support.programs import program
from tests.support.pythons import PYENV

pytestmark = [pytest.mark.real, pytest.mark.slow]


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
    assert line.startswith(
        f"uenvtool: needs Python 3.10 to 3.14; {old} is {version}; load another Python with `module load"
    )
    assert written(home) == []


def test_a_python_that_cannot_make_an_environment_is_told_what_it_lacks(home: Path, place: Path) -> None:
    lacks = "import sys; sys.modules['ensurepip'] = None"  # as in Debian's, until python3-venv is there
    text = f'shift 2\ncode="{lacks}\n$1"\nshift\nexec {sys.executable} -I -c "$code" "$@"'
    python = program(place / "python3", text)

    ran = run(home, python=str(python))

    assert ran.returncode == 1
    needs, remedy = ran.stderr.splitlines()
    assert (
        f"; {python} is {sys.version_info[0]}.{sys.version_info[1]}-without-ensurepip; load another Python with"
        in needs
    )
    assert "`apt install python3-venv`" in remedy
    assert written(home) == []


@pytest.mark.parametrize(
    "first",
    ["/usr/bin/python3 3.6 /usr", "/user-environment/env/default/bin/python3 3.11 /usr", "/a 3.13 /user-environment"],
)
def test_a_python_that_is_too_old_or_a_uenvs_is_passed_over_where_none_is_named(place: Path, first: str) -> None:
    program(place / "python3", f"echo {first}")
    program(place / "python3.14", "echo /opt/python/bin/python3.14 3.14 /opt/python")

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
    assert "was not created by tools/install" in ran.stderr
    assert (home / ".local/bin/uenvtool").read_text() == "mine"


def test_the_command_starts_with_the_python_variables_of_a_uenv(home: Path) -> None:
    installed = run(home)
    if installed.returncode != 0:
        fail_or_skip_without_index(installed.stderr)

    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere"}
    command = [home / ".local/bin/uenvtool", "--version"]
    started = subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    assert (started.returncode, started.stderr) == (0, "")
    assert f"installed {started.stdout.strip()} as {command[0]}" in installed.stdout
