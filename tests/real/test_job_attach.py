"""Test `uenvtool attach` in a real Slurm: the node, variables, directory and uenv of a running rank."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.world import LABEL, World, made
from tests.support import peers
from tests.support.slurm import Slurm, running_slurm

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]
WAITS = """\
import os, pathlib, time, subprocess
subprocess.Popen(["sleep", "100"])  # what a rank starts has its variables too
(pathlib.Path("ready") / os.environ["RANK"]).write_text(str(os.getpid()))
while True:
    time.sleep(0.2)
"""
SAYS = """\
import os
pid = os.environ["UENVTOOL_RANK_PID"]
image = os.path.isfile("/user-environment/meta/env.json")
print(os.environ["RANK"], os.environ["SLURMD_NODENAME"], os.getcwd(), pid, os.path.realpath(f"/proc/{pid}/exe"), image)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, mount_points: tuple[Path, ...]) -> World:
    return made(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm"), plugin=peers.uenv_plugin()) as found:
        yield found


@pytest.fixture(scope="module")
def job(world: World, slurm: Slurm) -> Iterator[str]:
    """Starts a job with two nodes of four waiting ranks each, in a uenv."""
    ready = world.folder / "ready"
    ready.mkdir()
    (world.folder / "waits.py").write_text(WAITS)
    wrote = world.run(f"uenvtool job --account a01 --time 5 --image {LABEL} -o waits.sh -- python waits.py")
    assert wrote.returncode == 0, wrote.stderr
    sent = slurm.run("sbatch", "--parsable", "waits.sh", env=dict(world.environ), cwd=world.folder)
    assert sent.returncode == 0, sent.stderr
    number = sent.stdout.strip()
    until = time.monotonic() + 120
    while len(list(ready.iterdir())) < 8 and time.monotonic() < until:
        time.sleep(0.2)
    yield number
    slurm.run("scancel", number)
    slurm.exit_code(number)


def attach(world: World, slurm: Slurm, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["uenvtool", "attach", *words]
    env = {**world.environ, "SLURM_CONF": str(slurm.conf)}
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=120, check=False)


def test_a_command_runs_beside_the_rank_that_is_named(world: World, slurm: Slurm, job: str) -> None:
    ran = attach(world, slurm, job, "--rank", "5", "--", "python", "-c", SAYS)

    rank, node, folder, pid, program, mounted = ran.stdout.split() or [ran.stderr] * 6
    ready = world.folder / "ready" / "5"
    assert (rank, folder, pid, mounted) == ("5", str(world.folder), ready.read_text(), "True")
    assert re.fullmatch(r"n[1-4]", node)
    assert "python" in program


def test_the_process_of_a_rank_can_be_named_and_one_that_is_not_there_is_said(
    world: World, slurm: Slurm, job: str
) -> None:
    ran = attach(world, slurm, job, "--", "cat", "/proc/{pid}/cmdline")
    missed = attach(world, slurm, job, "--rank", "9")

    assert "waits.py" in ran.stdout, ran.stderr
    assert (missed.returncode, "no rank 9" in missed.stderr, "0, 1, 2, 3, 4, 5, 6, 7" in missed.stderr) == (
        1,
        True,
        True,
    )
