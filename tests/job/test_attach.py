"""`uenvtool attach`: what it says where Slurm has no answer; tests/real has it in a real Slurm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import Cli


@pytest.mark.parametrize(
    ("squeue", "code", "said"),
    [
        (
            "echo 'squeue: fatal: Could not establish a configuration source' >&2; exit 1",
            4,
            "error: squeue does not say where job 12 runs: squeue: fatal: Could not establish a configuration source",
        ),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", 1, "error: job 12 does not run"),
        ("", 1, "error: job 12 does not run"),
        ("echo 1", 4, "error: no step can be started in job 12: busy"),
    ],
)
def test_a_silent_slurm_is_not_a_job_that_does_not_run(
    cli: Cli, place: Path, monkeypatch: pytest.MonkeyPatch, squeue: str, code: int, said: str
) -> None:
    for name, text in (("squeue", squeue), ("srun", "echo busy >&2; exit 9")):
        (place / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")

    answer = cli("attach", "12")

    assert (answer.code, answer.stderr.splitlines()[0]) == (code, said)
