"""Activation in the jobs and steps of a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.needs import need
from tests.support.samples import sampled
from tests.support.slurm import Slurm
from uenvtool.activation.activate import text
from uenvtool.knowledge.settings import settings_for

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one Slurm a machine
SHOW = """python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'"""
SCRIPT = ROOT / "activate" / "clariden.sh"
UENV = {"UENV_VIEW": "/nowhere:pytorch:default", "UENVTOOL_ROOT": "/nowhere"}
"""A loaded uenv; this machine may be a container itself."""


def environments(output: str) -> list[dict[str, str]]:
    """The environments that tasks wrote, by rank."""
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return sorted(found, key=lambda env: int(env.get("SLURM_PROCID", "0")))


SOURCED = {
    "bash": f"source {ROOT}/activate/clariden.sh",
    "zsh": f"source {ROOT}/activate/clariden.sh",
}


@pytest.mark.parametrize("shell", sampled(SOURCED))
def test_the_documented_lines_run_as_they_stand_in_a_job_of_two_nodes(slurm: Slurm, tmp_path: Path, shell: str) -> None:
    program = need(shell)
    train = tmp_path / "train me.py"
    train.write_text(
        "import json, os, sys\n"
        f"with open('{tmp_path}/' + os.environ['RANK'] + '.json', 'w') as file:\n"
        "    json.dump({**os.environ, 'ARGUMENT': sys.argv[1]}, file)\n"
    )
    job = tmp_path / "job"
    job.write_text(
        f"#!{program}\n"
        "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=72\n"
        f"{SOURCED[shell]}\n"
        f"srun --cpus-per-task=72 sh -uc 'eval \"$UENVTOOL_RANK\"' python3 '{train}' 'a \"b\" $c'\n"
    )
    output = tmp_path / "output"

    sent = slurm.submit(f"--output={output}", "--chdir=/tmp", str(job), env=UENV)

    tasks = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*.json"))]
    assert sent.returncode == 0, sent.stderr + output.read_text()
    assert [(env["RANK"], env["LOCAL_RANK"]) for env in tasks] == [(str(i), str(i % 4)) for i in range(8)]
    assert {(env["WORLD_SIZE"], env["NNODES"], env["OMP_NUM_THREADS"], env["ARGUMENT"]) for env in tasks} == {
        ("8", "2", "72", 'a "b" $c')
    }
    assert {env["MASTER_ADDR"] for env in tasks} == {tasks[0]["SLURMD_NODENAME"]}
    assert len({env["MASTER_PORT"] for env in tasks}) == 1
    assert {env["NCCL_NET"] for env in tasks} == {"AWS Libfabric"}
    assert "uenvtool:" not in output.read_text()


@pytest.mark.parametrize("shell", sampled(SOURCED))
def test_a_job_that_did_not_source_the_script_starts_nothing(slurm: Slurm, tmp_path: Path, shell: str) -> None:
    job = tmp_path / "job"
    job.write_text(f"#!{need(shell)}\nsrun --ntasks=1 sh -uc 'eval \"$UENVTOOL_RANK\"' touch {tmp_path}/started\n")

    sent = slurm.submit(f"--output={tmp_path}/output", "--chdir=/tmp", str(job))

    assert sent.returncode != 0
    assert not (tmp_path / "started").exists()
    assert "UENVTOOL_RANK" in (tmp_path / "output").read_text()


def test_two_steps_of_a_job_meet_at_two_ports(slurm: Slurm, tmp_path: Path) -> None:
    job = tmp_path / "job"
    step = f"srun --ntasks=1 sh -uc 'eval \"$UENVTOOL_RANK\"' {SHOW}\n"
    job.write_text(f"#!/bin/bash\nset -euo pipefail\nsource {SCRIPT}\n{step}{step}")

    sent = slurm.submit(f"--output={tmp_path}/output", "--chdir=/tmp", str(job), env=UENV)

    ports = [env["MASTER_PORT"] for env in environments((tmp_path / "output").read_text())]
    assert sent.returncode == 0
    assert len(set(ports)) == 2


def test_the_batch_script_itself_has_no_rank_and_its_tasks_inherit_none(slurm: Slurm, tmp_path: Path) -> None:
    job = tmp_path / "job"
    lines = f"sh -uc 'eval \"$UENVTOOL_RANK\"' {SHOW}\n"
    job.write_text(f"#!/bin/bash\nset -euo pipefail\nsource {SCRIPT}\n{lines}srun --ntasks=2 {lines}")

    sent = slurm.submit("--ntasks=2", f"--output={tmp_path}/output", "--chdir=/tmp", str(job), env=UENV)

    batch, *tasks = [json.loads(line) for line in (tmp_path / "output").read_text().splitlines() if line[0] == "{"]
    assert sent.returncode == 0
    assert "RANK" not in batch
    assert (batch["NNODES"], "MASTER_ADDR" in batch) == ("1", True)
    assert sorted(env["RANK"] for env in tasks) == ["0", "1"]
    assert "srun did not start this" in (tmp_path / "output").read_text()


def test_an_override_is_said_by_one_rank_only(slurm: Slurm) -> None:
    env = {"MPICH_GPU_SUPPORT_ENABLED": "1"}

    ran = slurm.run("srun", "--ntasks=2", "--oversubscribe", "bash", "-c", f"source {SCRIPT}", env={**UENV, **env})

    assert len([line for line in ran.stderr.splitlines() if "MPICH_GPU_SUPPORT_ENABLED" in line]) == 1


@pytest.mark.parametrize(
    ("options", "threads"),
    [(["--cpus-per-task=2"], "2"), (["--ntasks=2", "--cpus-per-task=1"], "1"), (["--ntasks-per-node=4"], "1")],
)
def test_the_threads_are_the_cores_of_a_task(slurm: Slurm, options: list[str], threads: str) -> None:
    ran = slurm.run("srun", "--oversubscribe", *options, "bash", "-c", f"source {SCRIPT}; {SHOW}", env=UENV)

    assert {env["OMP_NUM_THREADS"] for env in environments(ran.stdout)} == {threads}


def test_two_jobs_at_once_take_two_ports(slurm: Slurm, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(
        f"#!/bin/bash\nset -euo pipefail\nsource {SCRIPT}\nsrun --ntasks=1 sh -uc 'eval \"$UENVTOOL_RANK\"' {SHOW}\n"
    )
    outputs = [tmp_path / "one", tmp_path / "two"]

    sent = [
        slurm.run("sbatch", "--parsable", "--ntasks=1", f"--output={output}", "--chdir=/tmp", str(job), env=UENV)
        for output in outputs
    ]

    assert [slurm.exit_code(answer.stdout.strip()) for answer in sent] == [0, 0]
    ports = [environments(output.read_text())[0]["MASTER_PORT"] for output in outputs]
    assert ports[0] != ports[1]


def test_a_job_is_told_of_the_network_option_that_alt_read_needs(slurm: Slurm, tmp_path: Path) -> None:
    ours = tmp_path / "ours.sh"
    ours.write_text(text(settings_for("clariden", facts={"nccl": "2.29.2"}, runtime="uenv"), "bash", "a command"))

    without = slurm.run("srun", "bash", "-c", f"source {ours}", env=UENV)
    told = slurm.run(
        "srun", "bash", "-c", f"source {ours}", env={**UENV, "SLURM_NETWORK": "single_node_vni,disable_rdzv_get"}
    )

    assert "#SBATCH --network=disable_rdzv_get" in without.stderr
    assert "disable_rdzv_get" not in told.stderr
