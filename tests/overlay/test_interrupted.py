"""A run that is killed, refused by the disk, or not alone: the old overlay stays, and nothing is left over."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Answer
from tests.overlay.support import BaseHere, clean_environment, install, run, wheel
from uenvtool.files import places

KILLS = 50
pytestmark = pytest.mark.xdist_group("killed")  # what one kills, another would count as its own


@pytest.fixture
def here(loaded: Callable[..., BaseHere], wheels: Path, place: Path) -> BaseHere:
    found = loaded("pythonpath")
    install(found.site, wheel(place.parent / "old", "torch", "2.6.0a0+d883142"))
    for version in ("1.0", "2.0"):
        many = {f"big/part{i}.py": f"value = {i}\n" + "# words\n" * 2000 for i in range(300)}
        wheel(wheels, "big", version, files={**many, "big/__init__.py": f"__version__ = {version!r}\n"})
    return found


def working_version(folder: Path, here: BaseHere) -> str:
    code = (
        "import big, big.part299, torch, importlib.metadata as m\n"
        "assert m.version('big') == big.__version__; print(m.version('big'))"
    )
    completed = run([folder / "bin" / "python", "-c", code], clean_environment(**here.environment))
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def dead_in_memory() -> list[str]:
    """Folders in memory-backed storage whose run is dead, at two looks: a living run's is locked once it is made."""
    first = set(_unlocked_in_memory())
    time.sleep(0.5)
    return [name for name in _unlocked_in_memory() if name in first]


def _unlocked_in_memory() -> list[str]:
    found = []
    for path in places.MEMORY.glob(f"{places.MEMORY_PREFIX}{os.getuid()}-*"):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found.append(path.name)
            except BlockingIOError:
                pass
            finally:
                os.close(descriptor)
    return found


def command(*words: str) -> list[str]:
    """The command in a process of its own, with this very uenvtool."""
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job ignores it
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from uenvtool.__main__ import main; main()"
    )
    return [sys.executable, "-E", "-c", code, "venv", *words]


def begin(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_run_killed_at_any_moment_leaves_the_old_overlay_or_the_new(
    here: BaseHere, place: Path, cli: Callable[..., Answer]
) -> None:
    assert cli("venv", "v", "big==1.0").code == 0
    started_at = time.monotonic()
    assert begin("w", "big==2.0").wait() == 0
    whole = time.monotonic() - started_at
    chance = random.Random(4)
    ended = []
    for turn in range(KILLS):
        wanted = "2.0" if turn % 2 else "1.0"
        before = working_version(place / "v", here)
        process = begin("v", f"big=={wanted}")
        time.sleep(chance.uniform(0, whole * 1.1))
        process.kill()
        process.communicate()
        ended.append(process.returncode)
        assert working_version(place / "v", here) in (before, wanted)

    assert -signal.SIGKILL in ended
    assert cli("venv", "v", "big==2.0").code == 0
    assert working_version(place / "v", here) == "2.0"
    assert sorted(path.name for path in place.iterdir()) == ["v", "w"]
    assert list((place.parent / "home").rglob("*")) == []
    assert dead_in_memory() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_cleans_up_at_once(
    here: BaseHere, place: Path, cli: Callable[..., Answer], number: signal.Signals
) -> None:
    assert cli("venv", "v", "big==1.0").code == 0

    process = begin("v", "big==2.0")
    for line in process.stderr or ():
        if "installing" in line:
            break
    process.send_signal(number)
    process.communicate()

    assert process.returncode == 130
    assert working_version(place / "v", here) == "1.0"
    assert [path.name for path in place.iterdir()] == ["v"]
    assert dead_in_memory() == []


def test_of_two_at_once_on_one_path_the_second_is_refused(here: BaseHere, place: Path) -> None:
    first = begin("v", "big==1.0")
    for line in first.stderr or ():
        if "resolving" in line:
            break
    second = begin("v", "big==2.0")
    _, said = second.communicate()
    first.communicate()

    assert (first.returncode, second.returncode) == (0, 4)
    assert "in use" in said
    assert working_version(place / "v", here) == "1.0"


@pytest.fixture
def small_disk(place: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A filesystem of so many bytes, mounted for real."""
    folder = place / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small filesystem needs root and mount(8)")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("small_disk", ["1500k"], indirect=True)
def test_a_full_disk_is_told_and_the_old_overlay_stays(
    here: BaseHere, cli: Callable[..., Answer], small_disk: Path, wheels: Path
) -> None:
    wheel(wheels, "tiny", "1.0")
    assert cli("venv", "disk/v", "tiny").code == 0
    before = sorted(small_disk.rglob("*"))

    answer = cli("venv", "disk/v", "big==2.0")

    assert answer.code == 4, answer.stderr
    assert "No space left" in answer.stderr
    assert sorted(small_disk.rglob("*")) == before
    assert run(["disk/v/bin/python", "-c", "import tiny"], clean_environment()).returncode == 0


def test_a_spent_quota_is_told_and_the_old_overlay_stays(
    here: BaseHere, cli: Callable[..., Answer], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's answer is pretended: a real quota needs another user and a filesystem with quotas."""
    assert cli("venv", "v", "big==1.0").code == 0
    copy = shutil.copy2

    def refused(source: str, target: str, **more: bool) -> str:
        if source.endswith(".py"):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), target)
        return str(copy(source, target, **more))

    monkeypatch.setattr(shutil, "copy2", refused)

    answer = cli("venv", "v", "big==2.0")

    assert answer.code == 4
    assert "quota exceeded" in answer.stderr
    assert working_version(place / "v", here) == "1.0"
    assert [path.name for path in place.iterdir() if path.name.startswith(".v")] == []


@pytest.mark.parametrize("small_disk", ["1500k"], indirect=True)
def test_memory_that_is_too_small_is_left_for_the_disk(
    here: BaseHere, cli: Callable[..., Answer], small_disk: Path, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setattr(places, "MEMORY", small_disk)
    monkeypatch.setattr("uenvtool.commands.venv.make.LEAST_MEMORY", 0)

    answer = cli("venv", "v", "big==1.0")

    assert answer.code == 0, answer.stderr
    assert "full: building beside the target" in answer.stderr
    assert working_version(place / "v", here) == "1.0"
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("small_disk", ["10m"], indirect=True)
def test_a_read_only_target_is_told(here: BaseHere, cli: Callable[..., Answer], small_disk: Path) -> None:
    assert cli("venv", "disk/v", "big==1.0").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)

    changed = cli("venv", "disk/v", "big==2.0")
    new = cli("venv", "disk/sub/w", "big==2.0")

    assert (changed.code, new.code) == (4, 4)
    assert "Read-only" in changed.stderr
    assert "Read-only" in new.stderr
    assert working_version(Path("disk/v"), here) == "1.0"
