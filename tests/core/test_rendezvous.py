"""Test that a job and an activation script give a task the same rendezvous."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from tests.activation.test_ranks import STEP
from tests.conftest import Cli
from tests.job.test_make import JOBS, TRAIN, script
from uenvtool.activation.template import rank_program

SHOW = ("sh", "-c", "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_PORT")


def shown(words: Sequence[str]) -> str:
    """What a program prints in a task of srun."""
    env = {"PATH": "/usr/bin:/bin", **STEP}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("job", ["uenv", "ce", "olivia, srun"])
def test_a_job_gives_a_task_the_rank_and_port_that_an_activation_gives_it(cli: Cli, job: str) -> None:
    text = script(cli, *JOBS[job], *TRAIN)
    port = next(line for line in text.splitlines() if line.startswith("export MASTER_ADDR MASTER_PORT="))
    launch = next(line for line in text.splitlines() if line.startswith("  export RANK="))

    of_job = shown(["bash", "-uc", f'MASTER_ADDR=n; {port}\n{launch}\nexec "$@"', "rank", *SHOW])

    assert of_job == shown(["sh", "-uc", rank_program(), *SHOW]) == "6 2 8 4 14711\n"
