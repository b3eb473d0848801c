"""An extension of torch is built from its source with the base's torch, and so it is made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tomlkit

from tests.conftest import Cli, Loaded
from tests.support.overlays import BaseHere, extension_source, install, wheel


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path) -> BaseHere:
    found = loaded("pythonpath")
    install(found.site, wheel(place / "old", "torch", "2.6.0a0+d883142"))
    extension_source(wheels, "ext", "1.0")
    return found


def built_with(folder: str) -> list[str]:
    return [path.read_text() for path in Path(folder).glob("lib/python3*/site-packages/ext.py")]


def test_without_the_option_the_message_names_it(here: BaseHere, cli: Cli) -> None:
    answer = cli("venv", "v", "ext")

    assert answer.code == 4
    assert "Failed to build `ext==1.0`" in answer.stderr
    assert "its build needs torch, which lies in the base" in answer.stderr
    assert "--no-build-isolation ext" in answer.stderr
    assert "pip install" not in answer.stderr  # uv would have a second torch


@pytest.mark.parametrize("words", [["--no-build-isolation", "ext"], ["ext", "--no-build-isolation"]])
def test_it_is_built_on_the_bases_torch_and_recorded(here: BaseHere, cli: Cli, words: list[str]) -> None:
    answer = cli("venv", "v", *words)

    assert answer.code == 0, answer.stderr
    assert built_with("v") == ["built_with = '2.6.0a0+d883142'\n"]
    lock = tomlkit.parse(Path("v/.uenvtool/pylock.toml").read_text()).unwrap()
    assert lock["tool"]["uenvtool"]["built-on-base"] == (["ext"] if words[-1] == "ext" else [":all:"])


@pytest.mark.slow
def test_it_is_made_again_from_the_lock_and_the_record(here: BaseHere, cli: Cli, wheels: Path) -> None:
    assert cli("venv", "v", "--no-build-isolation", "ext").code == 0
    wheel(wheels, "more", "1.0")
    extension_source(wheels, "ext", "1.1")

    from_lock = cli("venv", "w", "--from", "v/.uenvtool/pylock.toml")
    added = cli("venv", "v", "more")
    updated = cli("venv", "v", "--update")

    assert [from_lock.code, added.code, updated.code] == [0, 0, 0], from_lock.stderr + added.stderr + updated.stderr
    assert built_with("w") == built_with("v")
    assert "ext" in updated.stdout
    assert "1.1" in updated.stdout


def test_the_variables_of_pip_and_uv_for_it_are_recorded(
    here: BaseHere, cli: Cli, monkeypatch: pytest.MonkeyPatch, wheels: Path
) -> None:
    wheel(wheels, "more", "1.0")
    monkeypatch.setenv("UV_NO_BUILD_ISOLATION", "1")
    assert cli("venv", "v", "ext").code == 0
    monkeypatch.delenv("UV_NO_BUILD_ISOLATION")

    answer = cli("venv", "v", "more")

    assert answer.code == 0, answer.stderr
    assert json.loads(cli("show", "v", "--json").stdout)["built_on_base"] == [":all:"]


def test_a_wheel_is_left_for_the_source(here: BaseHere, cli: Cli, wheels: Path) -> None:
    wheel(wheels, "ext", "1.0", files={"ext.py": "built_with = 'another torch'\n"})

    assert cli("venv", "v", "--no-build-isolation", "ext").code == 0
    assert built_with("v") == ["built_with = '2.6.0a0+d883142'\n"]


def test_what_the_build_needs_comes_from_the_words_beside_it(here: BaseHere, cli: Cli, wheels: Path) -> None:
    extension_source(wheels, "ext", "2.0", importing="torch, helping")
    missing = cli("venv", "v", "--no-build-isolation", "ext")
    wheel(wheels, "helping", "1.0")

    found = cli("venv", "v", "helping", "--no-build-isolation", "ext")

    assert missing.code == 4
    assert "No module named 'helping'" in missing.stderr
    assert found.code == 0, found.stderr
