"""`uenvtool image status` of a real build: while it runs, when a package failed, and where Slurm does not answer."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.real.test_image_interrupted import killed
from tests.real.test_image_same import small_environment, words
from tests.support import peers
from tests.support.image_builds import UENVTOOL, environ
from tests.support.needs import needs, needs_solver

pytestmark = [
    pytest.mark.real,
    pytest.mark.build,
    needs_solver,
    *needs("mksquashfs"),
]


@pytest.fixture
def run(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A build into place/store that has begun."""
    command = words(small_environment(place / "small"), place / "store", place / "x.squashfs", peers.SPACK.need())
    with (place / "output").open("w") as output:
        started = subprocess.Popen([*UENVTOOL, *command], env=environ(), stdout=output, stderr=output, text=True)
        yield started
        started.kill()
        started.wait()


def test_a_build_is_seen_while_it_runs_when_it_fails_and_when_it_is_killed(
    run: subprocess.Popen[str], place: Path, cli: Cli
) -> None:
    store = place / "store"
    running = found_when(run, cli, store, lambda found: bool(found["building"]))
    shown = cli("image", "status", store)
    assert running["running"]
    assert "a run works on it" in shown.stdout
    assert shown.code == 0, shown.stderr

    while run.poll() is None and not killed("make", below=run.pid):
        time.sleep(0.05)
    assert run.wait() == 4
    failed = cli("image", "status", store)
    data = json.loads(cli("image", "status", store, "--json").stdout)

    assert failed.code == 1
    assert "no run of this machine works on it" in failed.stdout
    assert "the last run failed: " in failed.stdout
    assert (data["running"], data["last_run_failed"]) == (False, True)
    assert len(data["failed"]) == 1
    assert Path(data["failed"][0]["log"]).is_file()


def found_when(
    run: subprocess.Popen[str], cli: Cli, store: Path, wanted: Callable[[dict[str, object]], bool]
) -> dict[str, object]:
    """What the status says when it says what is wanted, as long as the build runs."""
    while run.poll() is None:
        answer = cli("image", "status", store, "--json")
        found: dict[str, object] = json.loads(answer.stdout) if answer.stdout else {"building": []}
        if wanted(found):
            return found
        time.sleep(0.2)
    raise AssertionError("the build ended first")
