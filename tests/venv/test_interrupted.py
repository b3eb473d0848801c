"""Test runs that are killed, fail on the disk, or run in parallel: the old overlay stays, and no files are left."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.support.disks import make_read_only, small_disk
from tests.support.kills import command
from tests.support.overlays import BaseHere, clean_environment, run, wheel
from tests.support.samples import sampled

pytestmark = pytest.mark.xdist_group("killed")  # what one kills, another would count as its own


@pytest.fixture
def here(here: BaseHere, wheels: Path) -> BaseHere:
    for version in ("1.0", "2.0"):
        many = {f"big/part{i}.py": f"value = {i}\n" + "# words\n" * 2000 for i in range(300)}
        wheel(wheels, "big", version, files={**many, "big/__init__.py": f"__version__ = {version!r}\n"})
    return here


def working_version(folder: Path, here: BaseHere) -> str:
    code = (
        "import big, big.part299, torch, importlib.metadata as m\n"
        "assert m.version('big') == big.__version__; print(m.version('big'))"
    )
    completed = run([folder / "bin" / "python", "-c", code], clean_environment(**here.environment))
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def in_memory() -> set[str]:
    """What is of uenvtool in memory-backed storage; the single file alone unpacks itself there."""
    return {name for name in os.listdir("/dev/shm") if "uenvtool" in name and "pyz" not in name}


def begin(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command("venv", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
def test_a_run_that_is_interrupted_cleans_up_at_once(
    here: BaseHere, place: Path, done: Cli, number: signal.Signals
) -> None:
    done("venv", "v", "big==1.0")

    process = begin("v", "big==2.0")
    for line in process.stderr or ():
        if "installing" in line:
            break
    process.send_signal(number)
    process.communicate()

    assert process.returncode == 130
    assert working_version(place / "v", here) == "1.0"
    assert [path.name for path in place.iterdir()] == ["v"]


@pytest.mark.parametrize(
    ("step", "options", "made"), [("compiling", [], ["v"]), ("packing", ["--squash"], ["v", "v.squashfs"])]
)
def test_a_run_that_is_killed_leaves_nothing_in_memory_and_the_next_one_clears_the_rest(
    here: BaseHere, place: Path, done: Cli, step: str, options: list[str], made: list[str]
) -> None:
    before = in_memory()
    process = begin("v", "big==1.0", *options)
    for line in process.stderr or ():
        if step in line:
            break
    process.kill()
    process.communicate()
    assert in_memory() <= before
    assert {path.name for path in place.iterdir()} <= {f".{name}.uenvtool-work" for name in made}

    done("venv", "v", "big==1.0", *options)

    assert sorted(path.name for path in place.iterdir()) == made


def test_of_two_at_once_on_one_path_the_second_is_refused(here: BaseHere, place: Path) -> None:
    first = begin("v", "big==1.0")
    for line in first.stderr or ():
        if "resolving" in line:
            break
    first.send_signal(signal.SIGSTOP)  # it works as long as we want
    second = begin("v", "big==2.0")
    _, said = second.communicate()
    first.send_signal(signal.SIGCONT)
    first.communicate()

    assert (first.returncode, second.returncode) == (0, 4)
    assert f"error: {place}/v is in use\nhint: process {first.pid} on this node" in said
    assert working_version(place / "v", here) == "1.0"


@pytest.fixture
def disk(place: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A filesystem of so many bytes, mounted for real."""
    with small_disk(place / "disk", request.param) as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.parametrize("disk", ["1500k"], indirect=True)
def test_a_full_disk_is_told_and_the_old_overlay_stays(
    here: BaseHere, done: Cli, cli: Cli, disk: Path, wheels: Path
) -> None:
    wheel(wheels, "tiny", "1.0")
    done("venv", "disk/v", "tiny")
    before = sorted(disk.rglob("*"))

    answer = cli("venv", "disk/v", "big==2.0")

    assert answer.code == 4
    assert "No space left" in answer.stderr
    assert sorted(disk.rglob("*")) == before
    assert run(["disk/v/bin/python", "-c", "import tiny"], clean_environment()).returncode == 0


@pytest.mark.parametrize("disk", ["10m"], indirect=True)
def test_a_read_only_target_is_told(here: BaseHere, done: Cli, cli: Cli, disk: Path) -> None:
    done("venv", "disk/v", "big==1.0")
    make_read_only(disk)

    for target in ("disk/v", "disk/sub/w"):
        answer = cli("venv", target, "big==2.0")

        assert answer.code == 4
        assert "Read-only" in answer.stderr
    assert working_version(Path("disk/v"), here) == "1.0"
