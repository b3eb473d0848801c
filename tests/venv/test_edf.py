"""`uenvtool venv --edf FILE`: the command runs again in a container, through srun."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.overlays import run, wheel
from tests.support.programs import program
from uenvtool.core.errors import BadInput
from uenvtool.venv.reload import refuse_unmounted

SRUN = """\
#!/bin/bash
# Starts what it is given, as srun does in a container; the options come first.
while [[ $1 == --* ]]; do echo "$1" && shift; done
exec "$@"
"""


@pytest.fixture
def edf(place: Path) -> Path:
    """An EDF that mounts what this test and this program need."""
    mounts = [str(place), sys.base_prefix, str(Path(sys.prefix).resolve()), str(ROOT)]
    path = place / "mine.toml"
    path.write_text(f'image = "x.sqsh"\nmounts = {mounts}\n')
    return path


ECHO = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n'
"""A program that prints its words."""


def with_srun(place: Path, text: str = SRUN) -> dict[str, str]:
    """An environment with a stand-in of srun."""
    srun = program(place / "bin" / "srun", text)
    return {**os.environ, "PATH": f"{srun.parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


def test_the_command_is_run_again_in_a_container_in_the_same_folder(no_base: None, place: Path, edf: Path) -> None:
    env = with_srun(place, ECHO)

    done = run([sys.executable, "-m", "uenvtool", "venv", "a b", "six", "--edf", "mine.toml", "--squash"], env)

    assert done.stdout.splitlines() == [
        *(f"--environment={edf}", "--nodes=1", "--ntasks=1", "env", f"--chdir={place}"),
        f"UENVTOOL_STARTED_BY=srun --environment={edf}",
        *(sys.executable, "-E", "-m", "uenvtool", "venv", "a b", "six", "--squash"),
    ], done.stderr


def test_an_overlay_is_made_there(no_base: None, place: Path, edf: Path, wheels: Path) -> None:
    wheel(wheels, "six", "1.0")
    env = {**with_srun(place), **{name: os.environ[name] for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS")}}
    env["UV_OFFLINE"] = "1"

    done = run([sys.executable, "-m", "uenvtool", "venv", "mine", "--no-base", "six", "--edf", str(edf)], env)

    assert f"--environment={edf}" in done.stdout
    assert (place / "mine/bin/python").exists(), done.stderr
    assert f"  srun --environment={edf} mine/bin/python script.py\n" in done.stderr  # it is not there outside


@pytest.mark.parametrize("what", ["program", "folder"])
def test_a_container_that_lacks_what_the_command_needs_is_not_started(
    no_base: None, place: Path, edf: Path, what: str
) -> None:
    lacking = {"program": sys.base_prefix, "folder": str(place)}[what]
    edf.write_text(edf.read_text().replace(f"'{lacking}'", "'/nowhere'"))

    done = run([sys.executable, "-m", "uenvtool", "venv", "v", "six", "--edf", "mine.toml"], with_srun(place))

    assert done.returncode == 2
    assert "the container will not have" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("mounts", "is_there"),
    [
        (["/a"], True),
        (["/a/b"], True),
        (["/a/b/c:/x"], False),
        (["/a:/a:ro"], True),
        (["${HERE}/b"], True),
        (["$HERE/b"], False),
        (["/ab"], False),
        ([], False),
    ],
)
def test_a_folder_is_in_a_container_if_it_is_mounted_at_its_own_place(
    mounts: list[str], is_there: bool, tmp_path: Path
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(f"mounts = {mounts}\n")

    if is_there:
        refuse_unmounted(path, [Path("/a/b/c")], {"HERE": "/a"})
    else:
        with pytest.raises(BadInput, match=r"x.toml:1:1: the container will not have /a/b/c"):
            refuse_unmounted(path, [Path("/a/b/c")], {"HERE": "/a"})


def test_an_edf_on_another_one_is_left_to_srun(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('base_environment = "other"\n')

    refuse_unmounted(path, [Path("/a")], {})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mounts = [\n", "x.toml:1:1: this EDF cannot be read"),
        ('a = 1\nmounts = "/"\n', "x.toml:2:1: mounts must be a list"),
    ],
)
def test_an_edf_that_cannot_be_read_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)

    with pytest.raises(BadInput, match=told):
        refuse_unmounted(path, [], {})


def test_without_srun_it_is_told(no_base: None, place: Path, edf: Path) -> None:
    env = {**os.environ, "PATH": "/nonexistent", "PYTHONPATH": str(ROOT)}

    done = run([sys.executable, "-m", "uenvtool", "venv", "v", "six", "--edf", "mine.toml"], env)

    assert done.returncode == 3
    assert "--edf mine.toml: srun is not here\nhint: run it on a login node" in done.stderr
