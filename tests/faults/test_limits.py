"""Test exhausted quotas, lost network replies, clocks that jump, low limits, and a hostile /tmp."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL
from tests.faults import CASES
from tests.faults.test_kills import torch_here
from tests.support.disks import small_disk
from tests.support.needs import need, skip_without
from tests.support.overlays import BaseHere, wheel
from tests.support.trees import files

__all__ = ["torch_here"]
JOB = ("job", "--system", "clariden", "--runtime", "ce", "--account", "g", "--image", "a/b:1", "-o", "out/job.sh")
COMMANDS = {
    "build": ("build", "small", "-o", "out", "--no-concretize", "--force"),
    "job": (*JOB, "--", "python", "train.py"),
    "edit": ("edit", "small", "--pin", "zlib@1.3"),
    "container": ("container", "ngc-pytorch-25.06", "-o", "out"),
    "activate": ("activate", "--write", "-o", "out"),
}
"""Commands that write below the current folder and need nothing."""


def started(
    words: tuple[str, ...], env: Mapping[str, str] | None = None, **more: object
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "uenvtool", *words]
    given = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload,no-any-return]


def assert_told(done: subprocess.CompletedProcess[str], *codes: int) -> None:
    """It ends with an exit code of ours and a message, and no traceback."""
    assert done.returncode in codes, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0 or "error: " in done.stderr


@pytest.fixture
def recipe(place: Path) -> Path:
    path = place / "recipes/small/recipe.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(SMALL)
    (place / "out").mkdir()
    return path


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of shim.c."""
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def some(items: list[object] | list[str] | list[int], count: int) -> list[object]:
    """So many of them by chance; all where many cases are wanted."""
    return list(items) if CASES else random.Random(7).sample(list(items), count)


@pytest.mark.parametrize("name", some(list(COMMANDS), 2))
def test_a_spent_quota(name: str, recipe: Path, place: Path, shim: Path) -> None:
    spent = 0
    for most in some([0, 1, 100, 300, 1000, 3000, 5000, 10_000, 20_000, 40_000], 3):
        before = files(place)
        env = {"LD_PRELOAD": str(shim), "FAULT_FOLDER": str(place), "FAULT_BYTES": str(most)}
        done = started(COMMANDS[name], env)
        assert_told(done, 0, 4)
        if done.returncode == 4:
            spent += 1
            assert "quota" in done.stderr
            assert files(place) == before
        else:
            shutil.rmtree(place / "out")
            (place / "out").mkdir()
            recipe.write_text(SMALL)
    assert spent, "the quota was never spent"


@contextmanager
def disk_with_quota(folder: Path) -> Iterator[Path]:
    """A folder of a new btrfs at `folder`, which takes a real quota (`set_quota`); skips if none can be had."""
    if os.geteuid() != 0 or shutil.which("mkfs.btrfs") is None:
        skip_without("root with btrfs-progs", "as root: apt-get install btrfs-progs, outside a restricted container")
    image = folder.with_suffix(".img")
    folder.mkdir(parents=True)
    image.touch()
    os.truncate(image, 256 << 20)
    subprocess.run(["mkfs.btrfs", "--quiet", str(image)], capture_output=True, check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(folder)], capture_output=True, check=False).returncode:
        skip_without(
            "root that may mount a btrfs", "run the tests as root, where the kernel has btrfs and loop devices"
        )
    try:
        for words in (["quota", "enable", str(folder)], ["subvolume", "create", str(folder / "v")]):
            subprocess.run(["btrfs", *words], capture_output=True, check=True)
        yield folder / "v"
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        image.unlink()


def set_quota(folder: Path, more: int | None) -> None:
    """Let a folder with a quota take so many bytes more than it has; None: as many as the disk."""

    def btrfs(*words: str) -> str:
        return subprocess.run(["btrfs", *words], capture_output=True, text=True, check=True).stdout

    disk = str(folder.parent)  # in the folder itself a spent quota lets nobody change it
    btrfs("filesystem", "sync", disk)
    group, used = next(row.split()[:2] for row in btrfs("qgroup", "show", "--raw", disk).splitlines() if "0/256" in row)
    btrfs("qgroup", "limit", "none" if more is None else str(int(used) + more), group, disk)


@pytest.mark.nightly
@pytest.mark.parametrize("name", some(list(COMMANDS), 1))
def test_a_real_quota(name: str, place: Path) -> None:
    """btrfs refuses new names too, not only bytes: what is there is old or new, and the next run ends as ever."""
    with disk_with_quota(place / "disk") as folder:
        recipe = folder / "recipes/small/recipe.yaml"
        recipe.parent.mkdir(parents=True)
        refused = 0
        for more in some([0, 4096, 16384, 20000, 24576, 32768, 40960, 65536, 131072], 3):
            recipe.write_text(SMALL)
            (folder / "out").mkdir()
            before = files(folder)
            set_quota(folder, int(str(more)))
            done = started(COMMANDS[name], cwd=folder)
            assert_told(done, 0, 4)
            set_quota(folder, None)
            if done.returncode == 4:
                refused += 1
                assert "quota" in done.stderr
                assert files(folder) == before or "hint: some of the files may be new" in done.stderr
            assert_told(started(COMMANDS[name], cwd=folder), 0)
            assert list(folder.rglob(".*uenvtool-*")) == []
            shutil.rmtree(folder / "out")
        assert refused, "the quota was never spent"


@pytest.mark.slow
@pytest.mark.parametrize("name", some(list(COMMANDS), 2))
def test_a_network_that_loses_the_answer_to_a_rename(name: str, recipe: Path, place: Path, shim: Path) -> None:
    """The rename is done and answered with an error: the next run ends as ever."""
    for number in range(1, 8 if CASES else 3):
        env = {"LD_PRELOAD": str(shim), "FAULT_FOLDER": str(place), "FAULT_RENAME": str(number)}
        assert_told(started(COMMANDS[name], env), 0, 4)
        assert_told(started(COMMANDS[name]), 0)
        assert list(place.rglob(".*uenvtool-*")) == []
        shutil.rmtree(place / "out")
        (place / "out").mkdir()
        recipe.write_text(SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", some(list(COMMANDS), 1))
def test_clocks_that_jump(name: str, recipe: Path, place: Path) -> None:
    expected = None
    for clock in ("1970-01-02 00:00:00", "2037-12-31 00:00:00", "-10y", "@2000-01-01 00:00:00 x5000", "+0 i-3600"):
        words = ["faketime", "-f", clock, sys.executable, "-m", "uenvtool", *COMMANDS[name]]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        assert_told(subprocess.run(words, env=env, capture_output=True, text=True, check=False), 0)
        found = files(place)
        expected = expected or found
        assert found == expected, clock


OTHERWISE: dict[str, tuple[str, ...]] = {
    "build": COMMANDS["build"],
    "job": (*COMMANDS["job"], "--lr", "0.1"),
    "edit": ("edit", "small", "--pin", "zlib@1.4"),
    "container": ("container", "ngc-pytorch-26.02-alps4", "-o", "out"),
    "activate": COMMANDS["activate"],
}
"""The same commands with other inputs, so that they write again what they wrote."""
STEP = 4096 if CASES else 8192
"""How many bytes more are free each time."""
AGAIN = list(COMMANDS) if CASES else ["job"]


def written_before(name: str, folder: Path) -> None:
    """Write what a command writes, and change what it is made of."""
    (folder / "recipes/small").mkdir(parents=True)
    (folder / "recipes/small/recipe.yaml").write_text(SMALL)
    (folder / "systems").mkdir()
    (folder / "out").mkdir()
    (folder / "systems/mine.yaml").write_text("extends: rcp\ndescription: before\n")
    assert_told(started(COMMANDS[name], cwd=folder), 0)
    (folder / "systems/mine.yaml").write_text("extends: rcp\ndescription: after\n")
    recipe = folder / "recipes/small/recipe.yaml"
    recipe.write_text(recipe.read_text().replace("A small", "Another small"))


def is_refused(name: str, folder: Path, env: Mapping[str, str] | None = None) -> bool:
    """Run it again; where the disk refuses, all is as it was or the message says that it is not."""
    before = files(folder)
    done = started(OTHERWISE[name], env, cwd=folder)
    assert_told(done, 0, 4)
    if done.returncode == 0:
        return False
    told = "nothing was changed" if files(folder) == before else "some files may already be replaced or removed"
    assert f"hint: {told}" in done.stderr, (done.stderr, {*before} ^ {*files(folder)})
    return True


@pytest.mark.parametrize("name", AGAIN)
def test_a_full_disk_keeps_what_was_written_before(name: str, place: Path) -> None:
    """Some pages are free, more each time, so that it is full at the first file, at the second, ..."""
    with small_disk(place / "disk", "1m") as disk:
        written_before(name, disk)
        was, filler, refused = files(disk), disk / "filler", 0
        filler.write_bytes(bytes(shutil.disk_usage(disk).free))
        while is_refused(name, disk):
            refused += 1
            assert {**files(disk), "filler": None} == {**was, "filler": None}
            os.truncate(filler, filler.stat().st_size - STEP)
        assert refused, "the disk was never full"


@pytest.mark.slow
def test_a_disk_that_an_overlay_fills_is_named(no_base: None, wheels: Path, place: Path) -> None:
    """At its first file, in uv, while it compiles, while it packs."""
    code = "".join(f"x{number} = {number}\n" for number in range(20_000))
    wheel(wheels, "big", "1", files={"big/data": random.Random(7).randbytes(500_000), "big/code.py": code})
    with small_disk(place / "disk", "4m") as disk:
        filler, refused = disk / "filler", []
        filler.write_bytes(bytes(shutil.disk_usage(disk).free))
        while (done := started(("venv", "v", "--no-base", "big", "--squash"), cwd=disk)).returncode:
            assert_told(done, 4)
            refused.append(done.stderr.partition("error: ")[2])
            assert os.listdir(disk) == ["filler"]
            os.truncate(filler, filler.stat().st_size - (256 << 10))

    assert all(re.search(rf"{disk}\S*: .*No space left|No space left .* {disk}", error) for error in refused), refused
    assert {error.split()[0] for error in refused} >= {"cannot", "uv:"}


@pytest.mark.parametrize("name", AGAIN)
def test_a_disk_without_inodes_keeps_what_was_written_before(name: str, place: Path) -> None:
    with small_disk(place / "disk", "8m", inodes=100) as disk:
        written_before(name, disk)
        was, refused = files(disk), 0
        fillers = [disk / f"filler{number}" for number in range(os.statvfs(disk).f_ffree)]
        for filler in fillers:
            filler.touch()
        while is_refused(name, disk):
            refused += 1
            assert {path: text for path, text in files(disk).items() if "filler" not in path} == was
            fillers.pop().unlink()
        assert refused, "there was always one left"


@pytest.mark.slow
@pytest.mark.parametrize("call", ["FAULT_SYNC", "FAULT_CLOSE"])
@pytest.mark.parametrize("name", AGAIN)
def test_a_disk_that_refuses_late_keeps_what_was_written_before(
    name: str, call: str, tmp_path: Path, shim: Path
) -> None:
    folder, kept = tmp_path / "now", tmp_path / "before"
    kept.mkdir()
    written_before(name, kept)
    for number in range(1, 1000):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)
        if not is_refused(name, folder, {"LD_PRELOAD": str(shim), "FAULT_FOLDER": str(folder), call: str(number)}):
            break
    assert number > 1, "it was never asked"


LIMITS = [
    *((resource.RLIMIT_AS, mebibytes << 20) for mebibytes in (20, 40, 60, 80, 100, 150, 200, 300)),
    *((resource.RLIMIT_NOFILE, count) for count in (4, 5, 6, 8, 10, 14, 20, 40)),
    *((resource.RLIMIT_FSIZE, size) for size in (0, 100, 1000, 10_000)),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", some(list(COMMANDS), 1))
def test_little_memory_few_files_and_small_ones(name: str, recipe: Path, place: Path) -> None:
    """Python itself may not start; what is there is as it was, or new."""
    before = files(place)
    for limit, value in some(LIMITS, 6):
        done = started(
            COMMANDS[name], preexec_fn=lambda limit=limit, value=value: resource.setrlimit(limit, (value, value))
        )
        if done.returncode == 0:
            shutil.rmtree(place / "out")
            (place / "out").mkdir()
            recipe.write_text(SMALL)
        else:
            found = {name: text for name, text in files(place).items() if ".uenvtool-" not in name}
            assert found == before, (limit, value)
            assert done.returncode in (1, 4, 120, 127, -6, -11, -25), (limit, value, done.stderr)
            if done.returncode == 4:
                assert "Traceback" not in done.stderr, (limit, value, done.stderr)
                assert "please report" not in done.stderr, (limit, value, done.stderr)
    assert_told(started(COMMANDS[name]), 0)


ENEMY = """
import os, sys, time
folder, uid = sys.argv[1], int(sys.argv[2])
os.setgid(uid); os.setuid(uid)
print("ready", flush=True)
while True:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        for deed in (lambda: os.rename(path, path + "x"), lambda: os.symlink("/etc", path + ".part"),
                     lambda: os.unlink(path), lambda: os.symlink(folder, os.path.join(path, "inside"))):
            try:
                deed()
            except OSError:
                pass
"""


@pytest.fixture
def enemies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A TMPDIR as /tmp is, and another user who does to all that is in it what can be done."""
    if os.geteuid() != 0:
        skip_without("root", "run the tests as root, to be another user too")
    folder = Path("/tmp") / f"uenvtool-enemies-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o1777)
    for name in ("uenvtool-0-x", "uenvtool-x"):
        (folder / name).mkdir()
        os.chown(folder / name, 65534, 65534)
    monkeypatch.setenv("TMPDIR", str(folder))
    with subprocess.Popen([sys.executable, "-c", ENEMY, folder, "65534"], stdout=subprocess.PIPE) as enemy:
        assert enemy.stdout
        enemy.stdout.readline()
        yield folder
        enemy.kill()
    shutil.rmtree(folder)


@pytest.mark.slow
def test_enemies_in_tmp(torch_here: BaseHere, place: Path, enemies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("mksquashfs", "unsquashfs")
    monkeypatch.setenv("UV_LINK_MODE", "copy")
    for number in range(CASES // 10 or 1):
        done = started(("venv", "v", f"big=={1 + number % 2}.0", "--squash"))
        assert_told(done, 0)
        assert_told(started(("image", "verify", "v.squashfs")), 0)
        assert not [path for path in (place / "v").rglob("*") if path.lstat().st_uid == 65534]
