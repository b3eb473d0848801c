"""What doctor asks of a running job of a real Slurm: the line of each rank by py-spy, NCCL's RAS where there is one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.needs import skip_without
from tests.support.slurm import Slurm

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("slurm")]
TRAINS = """\
import os, subprocess, sys, time

def is_ready():
    os.close(os.open(f"ready/{rank}", os.O_CREAT))

def loads():
    is_ready(), time.sleep(100)

def reduces():
    is_ready(), time.sleep(100)

rank = os.environ["RANK"]
subprocess.Popen([sys.executable, "loader.py"])  # has the variables of the rank, as a data loader's worker
if rank == "5":
    loads()
reduces()
"""
JOB = """\
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --time=5 --output=out.log
srun sh -c 'RANK=$SLURM_PROCID exec "$0" train.py' "$PYTHON"
"""


@pytest.fixture
def job(slurm: Slurm, place: Path) -> Iterator[str]:
    """A job of two nodes of four ranks each, of which one is elsewhere."""
    (place / "ready").mkdir()
    (place / "train.py").write_text(TRAINS)
    (place / "loader.py").write_text("import time\ntime.sleep(100)\n")
    (place / "job.sh").write_text(JOB.replace("$PYTHON", sys.executable))
    number = slurm.run("sbatch", "--parsable", "job.sh", cwd=place).stdout.strip()
    until = time.monotonic() + 120
    while len(list((place / "ready").iterdir())) < 8 and time.monotonic() < until:
        time.sleep(0.2)
    time.sleep(1)  # from the mark to the call beside it
    yield number
    slurm.run("scancel", number)
    slurm.exit_code(number)


def test_the_rank_that_is_at_another_line_is_named(
    slurm: Slurm, job: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (Path(sys.executable).parent / "py-spy").is_file():
        skip_without("py-spy", "pip install py-spy")
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")

    ran = subprocess.run(
        [sys.executable, "-m", "uenvtool", "doctor", "--job", job, "--json"],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )

    report = json.loads(ran.stdout)
    (found,) = [each for each in report["findings"] if each["id"] == "rank-elsewhere"]
    assert "rank 5 on n" in found["detail"], found
    assert "train.py:7" in found["detail"], found
    assert "7 are at train.py:10" in found["detail"], found
    assert any("RAS" in line for line in report["unseen"]), report["unseen"]
    assert report["facts"]["state"] == "RUNNING"
    assert "exit code" not in report["facts"]
    state = slurm.run("squeue", "--noheader", "--format=%T", "--jobs", job).stdout.strip()
    assert state == "RUNNING"
