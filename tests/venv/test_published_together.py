"""Test that an overlay and its image are published together, and that both are unchanged after a failure."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT, Cli
from tests.support.disks import small_disk
from tests.support.needs import skip_without
from tests.support.overlays import BaseHere, run, wheel
from tests.support.programs import program
from tests.support.samples import sampled
from tests.support.tracing import need_strace
from tests.support.trees import snapshot

AGAIN = ("venv", "v", "--update", "--squash")


@contextmanager
def bound(folder: Path) -> Iterator[None]:
    """A folder as a mount point."""
    if subprocess.run(["mount", "--bind", folder, folder], capture_output=True, check=False).returncode != 0:
        skip_without("the right to mount", "run the tests as root")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.fixture
def here(here: BaseHere, wheels: Path, done: Cli) -> BaseHere:
    """An overlay with its image, which was made once before, and a newer package."""
    wheel(wheels, "small", "1.0")
    done("venv", "v", "small", "--squash")
    done(*AGAIN)
    wheel(wheels, "small", "1.1")
    return here


def test_both_are_new_afterwards_and_the_old_ones_are_kept(here: BaseHere, done: Cli, place: Path) -> None:
    names = ("v", "v.squashfs")
    old = [(place / name).stat().st_ino for name in names]

    done(*AGAIN)

    kept = ("v.previous", "v.previous.squashfs")
    assert [(place / name).stat().st_ino for name in kept] == old
    assert sorted(path.name for path in place.iterdir()) == sorted([*names, *kept])


@pytest.mark.parametrize(("own", "umask"), sampled([(0o2750, 0o077), (0o755, 0o077), (0o700, 0o022)], keep=1))
def test_what_is_made_again_keeps_its_rights(
    here: BaseHere, done: Cli, place: Path, wheels: Path, own: int, umask: int
) -> None:
    group = [*os.getgroups(), os.getgid()][0]
    for path in (place / "v", *(place / "v").rglob("*"), place / "v.squashfs"):
        if not path.is_symlink():
            os.chown(path, -1, group)
            path.chmod(own if path.is_dir() else own & (path.stat().st_mode | 0o666) & 0o777)
    before = os.umask(umask)
    try:
        done("venv", "v", "small", "--squash")
    finally:
        os.umask(before)

    found = {path: path.lstat() for path in (place / "v", *(place / "v").rglob("*")) if not path.is_symlink()}
    folders = {status.st_mode & 0o7777 for path, status in found.items() if path.is_dir()}
    assert folders == {own}
    assert {status.st_mode & 0o666 for path, status in found.items() if path.is_file()} == {own & 0o666}
    assert {status.st_gid for status in found.values()} == {group}
    assert (place / "v.squashfs").stat().st_mode & 0o777 == own & 0o666


@pytest.mark.slow
@pytest.mark.parametrize("atomic", [True, False], ids=["exchanged", "one-after-the-other"])
def test_a_rename_that_fails_leaves_both_and_the_kept_ones_as_they_were(
    here: BaseHere, place: Path, atomic: bool
) -> None:
    """A mount point cannot get another name: the new overlay and the new image have theirs by then."""
    before = snapshot(place)
    words = [sys.executable, "-m", "uenvtool", *AGAIN]
    if not atomic:  # as NFS has it: no two names are exchanged
        need_strace()
        refusal = "inject=renameat2:error=EINVAL"
        words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e", refusal, *words]

    with bound(place / "v.previous"):
        ended = run(words, {**os.environ, "PYTHONPATH": str(ROOT)})

    assert ended.returncode == 4
    assert "nothing was changed" in ended.stderr
    assert snapshot(place) == before


def test_packing_that_fails_leaves_both_and_the_kept_ones(
    here: BaseHere, cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(place)
    real = shutil.which("mksquashfs")
    text = f'case "$*" in *-version*|*-help*) exec {real} "$@";; esac\necho FATAL: no space >&2; exit 1'
    fails = program(place.parent / "programs" / "mksquashfs", text)
    monkeypatch.setenv("PATH", f"{fails.parent}:{os.environ['PATH']}")

    answer = cli(*AGAIN)

    assert answer.code == 4
    assert "mksquashfs failed" in answer.stderr
    assert snapshot(place) == before


@pytest.mark.slow
def test_a_disk_that_has_no_room_for_the_image_keeps_both_old_ones(
    here: BaseHere, done: Cli, cli: Cli, place: Path, wheels: Path
) -> None:
    with small_disk(place / "disk", "2500k") as disk:
        done("venv", "disk/v", "small==1.0", "--squash")
        before = snapshot(disk)
        noise = random.Random(4).randbytes(1_400_000)  # does not get smaller when it is packed
        wheel(wheels, "large", "1.0", files={"large/data.bin": noise})

        answer = cli("venv", "disk/v", "large", "--squash")

        assert answer.code == 4
        assert "No space left" in answer.stderr
        assert "nothing was changed" in answer.stderr
        assert snapshot(disk) == before
