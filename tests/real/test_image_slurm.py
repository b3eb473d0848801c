"""An image built by several nodes of a real Slurm, one store for all, one node's work killed in the middle."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.image_builds import UENVTOOL, build_words, spack_variables
from tests.support.installed import installed_hello
from tests.support.needs import needs, needs_solver
from tests.support.project import ROOT
from tests.support.slurm import Slurm, running_slurm

pytestmark = [
    pytest.mark.real,
    pytest.mark.build,
    pytest.mark.usefixtures("mount_points"),
    pytest.mark.xdist_group("slurm"),
    needs_solver,
    *needs("mksquashfs"),
]
BUILT = re.compile(r"^(\d): \d+ packages from a cache, (\d+) built by this run$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _real_spack(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in spack_variables().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    folder = tmp_path / "slurm"
    folder.mkdir()
    with running_slurm(folder) as found:
        yield found


def uenvtool(slurm: Slurm, *words: str | Path) -> tuple[int, str, str]:
    env = {**spack_variables(), "PYTHONPATH": str(ROOT), "HOME": os.environ["HOME"]}
    done = slurm.run(*UENVTOOL, *map(str, words), env=env, timeout=600)
    return done.returncode, done.stdout, done.stderr


def processes() -> Iterator[tuple[str, str, int]]:
    """Node, command and number of every process of a job's steps, but for Slurm's own."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            variables = dict(
                line.split(b"=", 1) for line in (place / "environ").read_bytes().split(b"\0") if b"=" in line
            )
            command = (place / "comm").read_text().strip()
        except OSError:
            continue
        node = variables.get(b"SLURMD_NODENAME", b"").decode()
        if node and not command.startswith("slurm"):
            yield node, command, int(place.name)


def building_nodes() -> set[str]:
    """The nodes on which a compiler runs now."""
    return {node for node, command, _ in processes() if command in {"make", "cc1", "cc1plus"}}


def end_all_of(node: str) -> None:
    """Kill every process of the job on a node, as if it had lost its power."""
    for name, _, number in list(processes()):
        if name == node:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def test_nodes_share_the_packages_and_a_node_that_dies_loses_its_own_alone(slurm: Slurm, place: Path) -> None:
    words = build_words("--store", place / "store", "-o", place / "image.squashfs")

    code, number, errors = uenvtool(slurm, *words, "--slurm", "--nodes", "3", "--time", "20")
    assert code == 0, errors
    together, dead, state = 0, "", {}
    while state.get("job_state") not in {"ended", "completed", "failed"}:
        for _ in range(20):
            nodes = building_nodes()
            together = max(together, len(nodes))
            if not dead and nodes - {"n1"}:  # the batch script itself runs on the first
                dead = sorted(nodes - {"n1"})[0]
                end_all_of(dead)
            time.sleep(0.1)
        state = json.loads(uenvtool(slurm, "image", "status", place / "store", "--json")[1])

    log = (place / "store" / ".uenvtool-install" / f"slurm-{number.strip()}.out").read_text()
    assert dead, log
    assert (place / "image.squashfs").is_file(), log
    assert state["waiting"] == state["building"] == state["failed"] == []
    assert len(state["installed"]) == 19
    built = {f"n{int(task) + 1}": int(count) for task, count in BUILT.findall(log)}
    assert set(built) == {"n1", "n2", "n3"} - {dead}, log
    assert sum(built.values()) > 0, log
    assert together > 1, log  # at the same time: that is what is faster
    verified = uenvtool(slurm, "image", "verify", place / "image.squashfs")
    assert verified[0] == 0, verified


def test_a_job_that_is_waited_for_gives_the_image(slurm: Slurm, place: Path) -> None:
    shutil.copytree(installed_hello().store, place / "store", symlinks=True)
    words = build_words("--store", place / "store", "-o", place / "image.squashfs")

    code, printed, errors = uenvtool(slurm, *words, "--slurm", "--nodes", "2", "--time", "20", "--wait", "--json")
    state = json.loads(uenvtool(slurm, "image", "status", place / "store", "--json")[1])

    assert code == 0, errors
    answer = json.loads(printed)
    assert answer["image"] == str(place / "image.squashfs")
    assert Path(answer["image"]).is_file()
    assert (state["job"], state["waiting"], state["failed"]) == (answer["job"], [], [])
    assert state["job_state"] in {"ended", "completed"}
    assert uenvtool(slurm, "image", "verify", answer["image"])[0] == 0


def test_a_job_that_is_waited_for_says_why_it_failed(slurm: Slurm, place: Path) -> None:
    (place / "image.squashfs").write_text("of somebody else")
    words = build_words("--store", place / "store", "-o", place / "image.squashfs")

    refused = uenvtool(slurm, *words, "--slurm", "--wait")
    (place / "image.squashfs").unlink()
    failed = uenvtool(slurm, *words, "--slurm", "--wait", "--time", "20", "--partition", "absent")

    assert refused[0] == 2
    assert "is not an image that uenvtool packed" in refused[2]
    assert failed[0] == 4
    assert "sbatch did not take the job" in failed[2]
