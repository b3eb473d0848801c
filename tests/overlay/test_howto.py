"""The lines that use a packed overlay."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.overlay import howto

if True:  # tomllib came with Python 3.11
    try:
        import tomllib
    except ImportError:
        tomllib = None  # type: ignore[assignment]


def test_the_lines_load_the_image_beside_its_base() -> None:
    found = {
        each.use: each.text
        for each in howto.lines("/s/my.squashfs", "my", "/user-tools", "pytorch/v2.6.0:v1", "default")
    }

    assert found == {
        "uenv": "uenv start pytorch/v2.6.0:v1,/s/my.squashfs --view=default,my:venv",
        "slurm": "#SBATCH --uenv=pytorch/v2.6.0:v1,/s/my.squashfs\n#SBATCH --view=default,my:venv",
        "edf": 'mounts = ["/s/my.squashfs:/user-tools:sqsh"]',
        "apptainer": "-B /s/my.squashfs:/user-tools:image-src=/",
    }
    assert not any(each.caveat for each in howto.lines("/s/my.squashfs", "my", "/user-tools"))


def test_without_a_base_the_image_stands_alone() -> None:
    found = {each.use: each.text for each in howto.lines("/s/my.squashfs", "my", "/user-tools")}

    assert found["uenv"] == "uenv start /s/my.squashfs --view=my:venv"


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1))
def test_every_line_gives_the_path_back_as_its_reader_sees_it(name: str) -> None:
    found = {each.use: each for each in howto.lines(f"/s/x{name}.squashfs", "my", "/user-tools")}
    path = f"/s/x{name}.squashfs"

    assert shlex.split(found["uenv"].text)[2] == path
    assert shlex.split(found["apptainer"].text)[1] == f"{path}:/user-tools:image-src=/"
    if tomllib:
        assert tomllib.loads(found["edf"].text)["mounts"] == [f"{path}:/user-tools:sqsh"]
    assert bool(found["uenv"].caveat) == (re.fullmatch(r"[A-Za-z0-9_./-]+", path) is None)


@pytest.mark.parametrize("name", ["a:b", "a,b", "a$b", "a\nb"])
def test_a_path_that_no_mount_can_take_is_said(name: str) -> None:
    found = {each.use: each.caveat for each in howto.lines(f"/s/{name}.squashfs", "my", "/user-tools")}

    assert all("rename the image" in caveat for caveat in found.values())
