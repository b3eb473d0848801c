"""Test an overlay's image: whether it is out of date, the base that it needs, and its permissions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded, Write
from tests.support.overlays import BaseHere, project, wheel
from tests.support.samples import slow


@pytest.mark.parametrize("image", ["hx.squashfs", slow("images/of-hx.squashfs")])
def test_an_image_that_is_older_is_said_until_it_is_packed_again(
    here: BaseHere, done: Cli, wheels: Path, image: str
) -> None:
    wheel(wheels, "small", "1.0")
    wheel(wheels, "other", "1.0")
    beside = image == "hx.squashfs"
    command = "venv hx --squash" if beside else f"venv hx --squash {image}"
    done("venv", "hx", "small", *command.split()[2:])
    same = done("show", "hx")

    added = done("venv", "hx", "other")
    of_overlay = done("show", "hx")
    of_image = done("show", image)
    done(*command.split())
    after = done("show", "hx")

    for answer in (added, of_overlay):
        assert f"{image} is older than" in answer.stderr
        assert f"pack it again with `uenvtool {command}`" in answer.stderr
    assert ("this image is older than hx: pack it again" in of_image.stderr) is beside
    assert "older" not in same.stderr + after.stderr


def test_an_environment_of_another_tool_is_used_where_it_was_packed(loaded: Loaded, done: Cli, write: Write) -> None:
    loaded("container")
    write("env/pyvenv.cfg", "home = /usr/bin\n")

    for answer in (done("venv", "env", "--squash"), done("show", "env.squashfs")):
        assert "/images/pytorch.sif /user-tools/bin/python script.py" in answer.stderr
        assert "uenv start" not in answer.stderr  # its Python exists only in the container


def test_an_editable_project_in_an_image_has_to_be_there(here: BaseHere, done: Cli, place: Path) -> None:
    project(place / "proj", "mine")

    for answer in (done("venv", "v", "-e", "proj", "--squash"), done("show", "v.squashfs")):
        assert (
            f"{place}/proj is editable: its directory must exist on every machine that uses the image" in answer.stderr
        )


def test_a_folder_meta_of_another_tools_environment_is_not_left_out(cli: Cli, write: Write) -> None:
    write("env/pyvenv.cfg", "home = /usr/bin\n")
    write("env/meta/thesis.tex", "mine\n")

    answer = cli("venv", "env", "--squash")

    assert (answer.code, Path("env.squashfs").exists()) == (2, False)
    assert "env/meta cannot be packed" in answer.stderr


def test_nobody_but_its_owner_may_write_what_an_overlay_has(
    here: BaseHere, done: Cli, wheels: Path, place: Path
) -> None:
    """uv leaves a lock file there that everybody may write."""
    wheel(wheels, "small", "1.0")
    before = os.umask(0o022)
    try:
        done("venv", "v", "small", "--squash")
    finally:
        os.umask(before)
    packed = subprocess.run(["unsquashfs", "-ll", "v.squashfs"], capture_output=True, text=True, check=True).stdout

    assert [path for path in place.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022] == []
    assert [line for line in packed.splitlines() if line[:1] in "-d" and "w" in line[5] + line[8]] == []
    assert "__init__.py" in packed
