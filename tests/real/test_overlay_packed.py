"""Test a mounted packed overlay, which has priority over its base at any mount point."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.disks import mounted
from tests.support.needs import needs
from tests.support.overlays import LAYOUTS, BaseHere, clean_environment, install, seen, unpack, wheel
from tests.support.pythons import pythons
from tests.support.samples import pairwise
from tests.venv.test_precedence import RIGHT, fill_base, looks, tool_wheel

pytestmark = [pytest.mark.real, pytest.mark.slow, *needs("mksquashfs")]


@pytest.fixture
def stack(loaded: Loaded, wheels: Path) -> Callable[..., BaseHere]:
    """Loads a base with tool 1, inbase 1 and a torch that starts workers, and provides tool 2."""

    def load(layout: str, version: str | None = None) -> BaseHere:
        here = loaded(layout, version)
        fill_base(here, wheels)
        return here

    return load


@pytest.mark.parametrize(("layout", "version"), pairwise(LAYOUTS, list(pythons()), each=1))
def test_a_packed_overlay_wins_wherever_it_is_mounted(
    stack: Callable[..., BaseHere], cli: Cli, place: Path, layout: str, version: str
) -> None:
    here = stack(layout, version)
    answer = cli("venv", "v", "tool==2.0", "--squash", "my.squashfs", "--mount", "/user-tools")
    assert answer.code == 0, answer.stderr
    shutil.rmtree("v")
    install(place / "decoy", tool_wheel(place / "decoys", "0.1"))

    for where in (place / "user-tools", place / "somewhere else" / "my mount"):
        with mounted(place / "my.squashfs", where):
            answers = looks(where, here, place, place / "decoy")

        for way, found in answers.items():
            assert {name: found[name] for name in RIGHT} == RIGHT, way
            assert Path(found["prefix"]) == where, way


def test_an_overlay_that_is_there_is_packed_as_it_is_with_what_the_uenv_client_reads(
    stack: Callable[..., BaseHere], cli: Cli, place: Path
) -> None:
    stack("pythonpath")
    assert cli("venv", "v", "tool").code == 0
    before = (place / "v").stat().st_ino

    image = json.loads(cli("venv", "v", "--squash", "--json").stdout)["image"]

    assert (place / "v").stat().st_ino == before
    assert image["path"] == str(place / "v.squashfs")
    assert image["sha256"] == hashlib.sha256((place / "v.squashfs").read_bytes()).hexdigest()
    assert f"/images/stack.squashfs,{place}/v.squashfs" in image["use"][0]["text"]
    with mounted(place / "v.squashfs", place / "m") as root:
        meta = json.loads((root / "meta" / "env.json").read_text())
        extra = {path.name for path in (root / "meta" / "extra").iterdir()}
    assert (meta["name"], meta["mount"]) == ("v", "/user-tools")
    assert meta["default-view"] == "venv"  # uenv 10 loads it without --view
    assert meta["views"]["venv"]["env"]["values"]["scalar"]["VIRTUAL_ENV"] == "/user-tools"
    assert {"pylock.toml", "uenvtool.json"} <= extra


def test_the_same_inputs_give_the_same_image(
    stack: Callable[..., BaseHere], cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack("pythonpath")
    assert cli("venv", "one/.venv", "tool", "--squash", "one/e.squashfs").code == 0
    time.sleep(1.1)
    os.umask(0o077)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert cli("venv", "two/other", "tool", "--squash", "two/e.squashfs").code == 0
    os.umask(0o022)

    sums = [hashlib.sha256(Path(folder, "e.squashfs").read_bytes()).hexdigest() for folder in ("one", "two")]

    assert sums[0] == sums[1]


def test_an_image_alone_is_updated_and_the_old_one_kept(
    stack: Callable[..., BaseHere],
    cli: Cli,
    wheels: Path,
    place: Path,
) -> None:
    stack("pythonpath")
    assert cli("venv", "v", "tool>=2", "--squash", "e.squashfs", "--mount", "/my/tools").code == 0
    shutil.rmtree("v")
    tool_wheel(wheels, "3.0")
    wheel(wheels, "more", "1.0")

    answer = cli("venv", "v", "more", "--squash", "e.squashfs", "--update")

    assert answer.code == 0, answer.stderr
    images = ("e.squashfs", "e.previous.squashfs")
    new, old = (json.loads(cli("show", name, "--json").stdout) for name in images)
    assert {each["name"]: each["version"] for each in new["packages"]} == {"tool": "3.0", "more": "1.0"}
    assert {each["name"]: each["version"] for each in old["packages"]} == {"tool": "2.0"}
    assert (new["mount"], old["mount"]) == ("/my/tools", "/my/tools")


@pytest.mark.nightly
def test_an_unpacked_image_is_an_overlay_again(
    stack: Callable[..., BaseHere],
    cli: Cli,
    place: Path,
    wheels: Path,
) -> None:
    here = stack("pythonpath")
    assert cli("venv", "v", "tool==2.0", "--squash", "e.squashfs").code == 0
    wheel(wheels, "more", "1.0")

    unpack(Path("e.squashfs"), Path("w"))
    added = cli("venv", "w", "more")

    assert added.code == 0, added.stderr
    found = seen(["w/bin/tool-look"], clean_environment(**here.environment))
    assert found["tool"] == "2.0"
