"""Diagnosis of a running job that hangs, from the place at which each rank waits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from uenvtool.doctor.stacks import SCRIPT, examined_stacks

WAITING = """Process 7: python train.py
Thread 9 (idle): "Thread-1"
    wait (threading.py:3)
Thread 7 (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    step (/home/u/train.py:40)
    <module> (/home/u/train.py:60)
""".replace("\n", "\v")
READING = WAITING.replace("all_reduce (torch/distributed/distributed_c10d.py:2501)\v    step", "read_batch")
NODES = {0: "n1", 1: "n1", 2: "n2", 3: "n2"}


def output(*stacks: str) -> str:
    return "".join(f"{rank}\t{NODES[rank]}\t{stack}\n" for rank, stack in enumerate(stacks))


def test_rank_in_another_place_is_named_with_its_node() -> None:
    seen = examined_stacks(output(WAITING, WAITING, WAITING, READING), NODES)

    (found,) = seen.findings
    most = "all_reduce (distributed_c10d.py:2501), called from step (train.py:40)"
    expected = f"rank 3 on n2: read_batch (train.py:40); 3 ranks in {most}"
    assert (found.known.id, found.detail) == ("rank-elsewhere", expected)
    assert dict(seen.facts)["rank 0-2"] == most
    assert seen.unseen == ()


def test_ranks_in_one_place_are_one_finding() -> None:
    (found,) = examined_stacks(output(*[WAITING] * 4), NODES).findings

    assert found.known.id == "ranks-wait-there"


def test_rank_without_an_answer_is_named() -> None:
    (found,) = examined_stacks(output(WAITING, WAITING, WAITING), NODES).findings

    assert found.detail.startswith("rank 3 on n2: no answer: ")


def test_without_py_spy_the_system_call_is_shown(place: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=-1
    ) as process:
        assert process.stdout
        process.stdout.readline()
        environ = {**os.environ, "SLURMD_NODENAME": "n1", "PATH": "/usr/bin:/bin"}
        arguments = ["bash", "-c", SCRIPT.read_text(), "x", f"0:{process.pid}:n1", f"1:{process.pid}:n2"]
        answer = subprocess.run(arguments, env=environ, capture_output=True, text=True, check=True)
        process.kill()

    seen = examined_stacks(answer.stdout, {0: "n1"})
    assert seen.findings[0].detail.startswith("sleeps"), answer
    assert seen.unseen


def test_hang_needs_a_job(cli: Cli) -> None:
    answer = cli("doctor", "--hang")

    assert (answer.code, "--hang needs the ID of a running job" in answer.stderr) == (2, True)


@pytest.mark.parametrize("options", [("--stack", "--job=1"), ("--ranks", "a.log"), ("--job=1", "--log=a.log")])
def test_two_subjects_of_doctor_are_rejected(cli: Cli, options: tuple[str, str]) -> None:
    answer = cli("doctor", *options)

    assert (answer.code, "cannot be used together with" in answer.stderr) == (2, True)


@pytest.mark.parametrize("job", ["x", "12x"])
def test_invalid_job_of_a_hang_is_bad_input(cli: Cli, job: str) -> None:
    assert cli("doctor", "--job", job, "--hang").code == 2
