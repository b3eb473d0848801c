"""Test activation scripts in jobs and steps of a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.needs import need
from tests.support.samples import sampled
from tests.support.slurm import Slurm

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine
SHOW = """python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'"""
SCRIPT = ROOT / "activate" / "clariden.sh"
UENV = {"UENV_VIEW": "/nowhere:pytorch:default", "UENVTOOL_ROOT": "/nowhere"}
"""The variables of a loaded uenv, even if this machine is a container."""

BATCH = """\
#!{shell}
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=72
source {script}
sh -uc 'eval "$UENVTOOL_RANK"' {show}
srun --cpus-per-task=72 sh -uc 'eval "$UENVTOOL_RANK"' python3 '{train}' 'a "b" $c'
srun --ntasks=1 --nodes=1 sh -uc 'eval "$UENVTOOL_RANK"' {show}
"""
TRAIN = """\
import json, os, sys
with open(os.environ["RANK"] + ".json", "w") as file:
    json.dump({**os.environ, "ARGUMENT": sys.argv[1]}, file)
"""


@pytest.mark.parametrize("shell", sampled(["bash", "zsh"]))
def test_the_documented_lines_run_as_they_stand_in_a_job_of_two_nodes(slurm: Slurm, place: Path, shell: str) -> None:
    place.chmod(0o755)
    train, job, output = place / "train me.py", place / "job", place / "output"
    train.write_text(TRAIN)
    job.write_text(BATCH.format(shell=need(shell), script=SCRIPT, show=SHOW, train=train))

    sent = slurm.submit(f"--output={output}", str(job), env=UENV, cwd=place)

    said = output.read_text()
    assert sent.returncode == 0, sent.stderr + said
    batch, second = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert "RANK" not in batch
    assert (batch["NNODES"], batch["MASTER_ADDR"]) == ("2", batch["SLURMD_NODENAME"])
    told = {line for line in said.splitlines() if "uenvtool:" in line}
    assert all("not started by srun" in line for line in told), told
    assert told
    tasks = [json.loads(path.read_text()) for path in sorted(place.glob("*.json"))]
    assert [(env["RANK"], env["LOCAL_RANK"]) for env in tasks] == [(str(i), str(i % 4)) for i in range(8)]
    assert {(env["WORLD_SIZE"], env["NNODES"], env["OMP_NUM_THREADS"], env["ARGUMENT"]) for env in tasks} == {
        ("8", "2", "72", 'a "b" $c')
    }
    assert {env["MASTER_ADDR"] for env in tasks} == {tasks[0]["SLURMD_NODENAME"]}
    assert {env["NCCL_NET"] for env in tasks} == {"AWS Libfabric"}
    (port,) = {env["MASTER_PORT"] for env in tasks}
    assert second["MASTER_PORT"] != port  # two steps of a job meet at two ports


@pytest.mark.parametrize(
    ("options", "threads"),
    [(["--cpus-per-task=2"], "2"), (["--ntasks=2", "--cpus-per-task=1"], "1"), (["--ntasks-per-node=4"], "1")],
)
def test_the_threads_are_the_cores_of_a_task_and_one_rank_says_what_is_overridden(
    slurm: Slurm, options: list[str], threads: str
) -> None:
    env = {**UENV, "MPICH_GPU_SUPPORT_ENABLED": "1"}

    ran = slurm.run("srun", "--oversubscribe", *options, "bash", "-c", f"source {SCRIPT}; {SHOW}", env=env)

    tasks = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert {env["OMP_NUM_THREADS"] for env in tasks} == {threads}
    assert len([line for line in ran.stderr.splitlines() if "MPICH_GPU_SUPPORT_ENABLED" in line]) == 1
