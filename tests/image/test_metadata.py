"""Test env.json as the uenv client reads it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uenvtool.image.metadata import ListUpdate, Uenv, UenvView, env_json, uenv_name
from uenvtool.venv.image import overlay_uenv

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
    name = uenv_name(stem, "venv")

    data = as_the_client_reads_it(env_json(overlay_uenv(name, f"/{mount}", base=base)))

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
    assert uenv_name(stem, "venv") == name


def test_a_uenv_with_several_views_says_which_is_the_default() -> None:
    view = UenvView(
        description="all of it",
        root="/user-environment/env/default",
        activate="/user-environment/env/default/activate.sh",
        lists={"PATH": [ListUpdate(op="prepend", paths=["/a", "/b"])], "CPATH": [ListUpdate(op="unset")]},
        scalars={"CUDA_HOME": "/a", "OMP_NUM_THREADS": None},
    )
    uenv = Uenv(
        name="pytorch",
        description="",
        mount="/user-environment",
        views={"default": view, "spack": view},
        default_view="default",
        modules="/user-environment/modules",
    )

    data = as_the_client_reads_it(env_json(uenv))

    assert data["default-view"] == "default"
    assert data["modules"] == {"root": "/user-environment/modules"}
    assert list(data["views"]) == ["default", "spack"]
    values = data["views"]["default"]["env"]["values"]
    assert values["list"]["PATH"] == [{"op": "prepend", "value": ["/a", "/b"]}]
    assert values["scalar"] == {"CUDA_HOME": "/a", "OMP_NUM_THREADS": None}
