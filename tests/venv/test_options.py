"""Test that no option of `venv` is ignored, whichever way the command takes: pack only, --update or --dry-run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.overlays import BaseHere, wheel
from tests.support.samples import sampled
from tests.venv.conftest import Begun, record
from uenvtool.venv.request import VenvRequest

INVALID = {
    "packages": "absent-package",
    "requirements": "-r absent.txt",
    "editable": "-e absent",
    "extra": "--extra absent",
    "group": "--group absent",
    "remove": "--remove absent",
    "base": "--base /absent/python",
    "uenv": "--uenv absent",
    "view": "--view absent",
    "squash": "--squash absent.txt",
    "override": "--override absent-package",
    "no_build_isolation": "--no-build-isolation absent-package",
    "from_": "--from absent.toml",
    "no_install_project": "--no-install-project",
    "mount": "--mount absent",
}
"""A value of each option that the command must reject."""
VALID = {
    "path": "",
    "no_base": "--no-base",
    "allow_older": "--allow-older",
    "keep_base": "--keep-base",
    "update": "--update",
    "dry_run": "--dry-run",
    "verbose": "--verbose",
}
"""The options without an invalid value; the tests below check their effect."""
MODES = ("v --squash", "v --update", "v --dry-run --squash", "v --update --dry-run --squash")


@pytest.fixture
def tmp_path(begun: Begun) -> Path:
    return begun.emptied()


@pytest.fixture
def overlay(here: BaseHere, wheels: Path, done: Cli, begun: Begun) -> Path:
    def make() -> None:
        wheel(wheels, "small", "1.0")
        done("venv", "v", "small")

    begun.fill(make)
    return Path("v")


def test_each_option_is_in_one_of_the_tables() -> None:
    assert {field.name for field in dataclasses.fields(VenvRequest)} == INVALID.keys() | VALID.keys()


@pytest.mark.parametrize("mode", sampled(MODES, keep=2))
def test_an_invalid_option_is_rejected_in_each_mode(overlay: Path, cli: Cli, mode: str) -> None:
    before = (overlay / ".uenvtool/uenvtool.json").read_bytes()

    accepted = [name for name, words in INVALID.items() if cli("venv", *mode.split(), *words.split()).code == 0]

    assert not accepted
    assert (overlay / ".uenvtool/uenvtool.json").read_bytes() == before
    assert not Path("v.squashfs").exists()


@pytest.mark.parametrize("mode", ["", "--squash", "--update", "--update --squash", "--dry-run", "--dry-run --squash"])
def test_another_base_is_used_in_each_mode(overlay: Path, done: Cli, mode: str) -> None:
    answer = done("venv", "v", "--no-base", *mode.split(), "--json")

    assert json.loads(answer.stdout)["base"]["kind"] == "plain"
    assert record("v")["base"]["kind"] == ("uenv" if "--dry-run" in mode else "plain")
    assert Path("v.squashfs").exists() == (mode.endswith("--squash") and "--dry-run" not in mode)


@pytest.mark.parametrize("make_before", sampled(["", "--no-base"], keep=1))
def test_the_uenv_of_the_option_is_used_in_an_image(
    here: BaseHere, wheels: Path, done: Cli, monkeypatch: pytest.MonkeyPatch, make_before: str
) -> None:
    """Inside the uenv, only the variable UENVTOOL_UENV tells that the command had the option --uenv."""
    wheel(wheels, "small", "1.0")
    done("venv", "v", "small", *make_before.split())
    monkeypatch.setenv("UENVTOOL_UENV", "/images/other.squashfs")

    answer = done("venv", "v", "--squash")
    again = done("venv", "v", "--squash", "--json")

    assert record("v")["base"]["image"] == "/images/other.squashfs"
    assert ("now has another base" in answer.stderr) == bool(make_before)
    assert json.loads(again.stdout)["base"] is None


@pytest.mark.parametrize("mode", ["--squash", "--dry-run --squash", "--update", "--update --dry-run", ""])
def test_verbose_lists_all_packages_in_each_mode(overlay: Path, done: Cli, mode: str) -> None:
    assert "small    1.0" in done("venv", "v", "--verbose", *mode.split()).stdout


@pytest.mark.parametrize("option", ["--squash", "--squash --allow-older", "--squash --base v-base", "small --squash"])
def test_a_dry_run_names_the_image(overlay: Path, done: Cli, here: BaseHere, option: str) -> None:
    words = option.replace("v-base", str(here.python)).split()

    answer = done("venv", "v", *words, "--dry-run")

    assert "would pack v into v.squashfs" in answer.stderr
    assert not Path("v.squashfs").exists()


def test_the_options_of_a_project_apply_to_a_second_run(here: BaseHere, wheels: Path, done: Cli) -> None:
    wheel(wheels, "small", "1.0")
    wheel(wheels, "plotter", "1.0")
    Path("pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\ndependencies = ["small"]\n'
        '[project.optional-dependencies]\nplot = ["plotter"]\n'
    )
    done("venv", "w", "--squash")
    names = []
    for words in ("--squash --extra plot", "--squash --extra plot", "--squash"):
        done("venv", "w", *words.split())
        names.append([row["name"] for row in record("w")["packages"]])

    assert names == [["plotter", "small"]] * 3
