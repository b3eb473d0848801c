"""env.json as the uenv client reads it, and the lines that use an image."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.image import howto
from uenvtool.image.metadata import overlay_env, uenv_name

if True:  # tomllib came with Python 3.11
    try:
        import tomllib
    except ImportError:
        tomllib = None  # type: ignore[assignment]

KNOWN_LISTS = {"ACLOCAL_PATH", "CMAKE_PREFIX_PATH", "CPATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH"}
KNOWN_LISTS |= {"MODULEPATH", "PATH", "PKG_CONFIG_PATH", "PYTHONPATH"}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
"""What the client takes as a name: uenv 9.2, src/uenv/parse.cpp, is_name_tok."""


def as_the_client_reads_it(text: str) -> dict[str, Any]:
    """The checks of load_meta (uenv 9.2, src/uenv/meta.cpp), which logs what it does not take."""
    raw = json.loads(text)
    assert isinstance(raw["name"], str)
    assert isinstance(raw["mount"], str)
    for view in raw["views"].values():
        assert view["env"]["version"] == 1
        assert view["env"]["type"] == "augment"
        for name, updates in view["env"]["values"]["list"].items():
            assert name in KNOWN_LISTS
            for update in updates:
                assert update["op"] in {"set", "prepend", "append", "unset"}
                assert all(isinstance(path, str) for path in update["value"])
        for value in view["env"]["values"]["scalar"].values():
            assert value is None or isinstance(value, str)
    return dict(raw)


@given(st.text(), st.text(), st.text())
def test_env_json_is_what_the_client_reads_whatever_the_names(stem: str, mount: str, base: str) -> None:
    name = uenv_name(stem)

    data = as_the_client_reads_it(overlay_env(name, f"/{mount}", base=base))

    assert NAME.match(data["name"])
    values = data["views"]["venv"]["env"]["values"]
    assert values["list"]["PATH"] == [{"op": "prepend", "value": [f"/{mount}/bin"]}]
    assert values["list"]["PYTHONPATH"][0]["op"] == "unset"
    assert values["scalar"]["VIRTUAL_ENV"] == data["mount"] == f"/{mount}"


@pytest.mark.parametrize(
    ("stem", "name"),
    [("myenv", "myenv"), ("my env", "my-env"), ("-x", "x"), (".venv", "venv"), ("é", "venv"), ("", "venv")],
)
def test_the_name_comes_from_the_file(stem: str, name: str) -> None:
    assert uenv_name(stem) == name


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
