"""Test the script that finds the ranks of a job among the processes of a node."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uenvtool.job

SCRIPT = Path(uenvtool.job.__file__).parent / "scripts" / "find-ranks.sh"
JOB = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": str(os.getpid())}
TASK = {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
BATCH = {"SLURM_STEP_ID": "-5", "SLURM_PROCID": "0"}
"""The variables of a batch script since Slurm 26.05."""


@contextmanager
def process(env: dict[str, str]) -> Iterator[int]:
    with subprocess.Popen(["sleep", "30"], env={**JOB, **env}) as started:
        yield started.pid
        started.kill()


def test_only_the_tasks_of_steps_are_ranks() -> None:
    here = {**JOB, "SLURM_STEP_ID": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURMD_NODENAME": "n1"}

    with ExitStack() as stack:
        ranks = [stack.enter_context(process({**TASK, "SLURM_PROCID": str(rank)})) for rank in range(2)]
        stack.enter_context(process(BATCH))
        stack.enter_context(process({**TASK, "SLURM_PROCID": "5", "SLURM_JOB_ID": "1"}))
        printed = subprocess.run(["bash", SCRIPT], env=here, capture_output=True, text=True, check=True).stdout

    found = {row["pid"]: row["rank"] for row in map(json.loads, printed.splitlines())}
    assert found == {pid: rank for rank, pid in enumerate(ranks)}
