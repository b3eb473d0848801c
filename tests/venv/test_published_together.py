"""An overlay and its image get their names together; whatever fails, both are what they were."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import Cli, Loaded
from tests.support.disks import small_disk
from tests.support.needs import need, skip_without
from tests.support.overlays import BaseHere, install, wheel
from tests.support.programs import program
from tests.support.trees import snapshot


@contextmanager
def bound(folder: Path) -> Iterator[None]:
    """A folder as a mount point."""
    if subprocess.run([need("mount"), "--bind", folder, folder], capture_output=True, check=False).returncode != 0:
        skip_without("the right to mount", "run the tests as root")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def here(loaded: Loaded, wheels: Path, place: Path, cli: Cli) -> BaseHere:
    """An overlay with its image, and a newer package."""
    need("mksquashfs", "unsquashfs")
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", "2.6.0a0+d883142"))
    wheel(wheels, "small", "1.0")
    assert cli("venv", "v", "small", "--squash").code == 0
    wheel(wheels, "small", "1.1")
    return found


def test_both_are_new_afterwards_and_the_old_ones_are_kept(here: BaseHere, cli: Cli, place: Path) -> None:
    old = {name: (place / name).stat().st_ino for name in ("v", "v.squashfs")}

    answer = cli("venv", "v", "--update", "--squash")

    assert answer.code == 0, answer.stderr
    assert {name: (place / name).stat().st_ino for name in ("v.previous", "v.previous.squashfs")} == {
        "v.previous": old["v"],
        "v.previous.squashfs": old["v.squashfs"],
    }
    assert sorted(path.name for path in place.iterdir()) == [
        "v",
        "v.previous",
        "v.previous.squashfs",
        "v.squashfs",
    ]


@pytest.mark.parametrize("atomic", [True, False], ids=["exchanged", "one-after-the-other"])
def test_a_rename_that_fails_leaves_both_and_the_kept_ones_as_they_were(
    here: BaseHere, cli: Cli, wheels: Path, place: Path, monkeypatch: pytest.MonkeyPatch, atomic: bool
) -> None:
    """A mount point cannot get another name: the new overlay and the new image have theirs by then."""
    assert cli("venv", "v", "--update", "--squash").code == 0
    before = snapshot(place)
    wheel(wheels, "small", "1.2")
    if not atomic:  # as NFS has it
        monkeypatch.setattr("uenvtool.core.files.together._exchange", lambda one, other: False)

    with bound(place / "v.previous"):
        answer = cli("venv", "v", "--update", "--squash")

    assert answer.code == 4, answer.stderr
    assert "nothing was changed" in answer.stderr
    assert snapshot(place) == before


def test_packing_that_fails_leaves_both_and_the_kept_ones(
    here: BaseHere, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("venv", "v", "--update", "--squash").code == 0
    before = snapshot(place)
    real = shutil.which("mksquashfs")
    text = f'case "$*" in *-version*|*-help*) exec {real} "$@";; esac\necho FATAL: no space >&2; exit 1'
    fails = program(place.parent / "programs" / "mksquashfs", text)
    monkeypatch.setenv("PATH", f"{fails.parent}:{os.environ['PATH']}")

    answer = cli("venv", "v", "--update", "--squash")

    assert answer.code == 4, answer.stderr
    assert "mksquashfs failed" in answer.stderr
    assert snapshot(place) == before


def test_a_disk_that_has_room_for_the_image_alone_keeps_both_old_ones(
    here: BaseHere, cli: Cli, place: Path, wheels: Path
) -> None:
    with small_disk(place / "disk", "2500k") as disk:
        assert cli("venv", "disk/v", "small==1.0", "--squash").code == 0
        before = snapshot(disk)
        noise = random.Random(4).randbytes(1_400_000)  # does not get smaller when it is packed
        wheel(wheels, "large", "1.0", files={"large/data.bin": noise})

        answer = cli("venv", "disk/v", "large", "--squash")

        assert answer.code == 4, answer.stderr
        assert "No space left" in answer.stderr
        assert "nothing was changed" in answer.stderr
        assert snapshot(disk) == before
