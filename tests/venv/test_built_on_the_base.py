"""Test that a torch extension is built from source with the base's torch, also in later runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomlkit

from tests.conftest import Cli
from tests.support.overlays import BaseHere, extension_source, wheel
from tests.venv.conftest import TORCH


@pytest.fixture
def here(here: BaseHere, wheels: Path) -> BaseHere:
    extension_source(wheels, "ext", "1.0")
    return here


def built_with(folder: str) -> list[str]:
    return [path.read_text() for path in Path(folder).glob("lib/python3*/site-packages/ext.py")]


@pytest.mark.parametrize("words", [["--no-build-isolation", "ext"], ["ext", "--no-build-isolation"]])
def test_it_is_built_on_the_bases_torch_and_recorded(here: BaseHere, done: Cli, wheels: Path, words: list[str]) -> None:
    if words[-1] == "ext":  # whose wheel is left for its source
        wheel(wheels, "ext", "1.0", files={"ext.py": "built_with = 'another torch'\n"})

    done("venv", "v", *words)

    assert built_with("v") == [f"built_with = {TORCH!r}\n"]
    lock = tomlkit.parse(Path("v/.uenvtool/pylock.toml").read_text()).unwrap()
    assert lock["tool"]["uenvtool"]["built-on-base"] == (["ext"] if words[-1] == "ext" else [":all:"])


@pytest.mark.slow
def test_it_is_made_again_from_the_lock_and_the_record(here: BaseHere, done: Cli, wheels: Path) -> None:
    done("venv", "v", "--no-build-isolation", "ext")
    wheel(wheels, "more", "1.0")
    extension_source(wheels, "ext", "1.1")

    done("venv", "w", "--from", "v/.uenvtool/pylock.toml")
    done("venv", "v", "more")
    updated = done("venv", "v", "--update")

    assert built_with("w") == built_with("v")
    assert "ext" in updated.stdout
    assert "1.1" in updated.stdout


def test_the_variables_of_pip_and_uv_for_it_are_recorded(
    here: BaseHere, done: Cli, monkeypatch: pytest.MonkeyPatch, wheels: Path
) -> None:
    """What the build needs beside torch comes from the words beside it."""
    extension_source(wheels, "ext", "2.0", importing="torch, helping")
    wheel(wheels, "helping", "1.0")
    wheel(wheels, "more", "1.0")
    monkeypatch.setenv("UV_NO_BUILD_ISOLATION", "1")
    done("venv", "v", "helping", "ext")
    monkeypatch.delenv("UV_NO_BUILD_ISOLATION")

    done("venv", "v", "more")

    assert json.loads(done("show", "v", "--json").stdout)["built_on_base"] == [":all:"]
