"""Activation in the jobs and steps of a real Slurm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.slurm import Slurm, running_slurm
from uenvtool.activation.formats import slurm_text
from uenvtool.commands.activate import plan, text

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("slurm")]  # one Slurm a machine
SHOW = """python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'"""
SCRIPT = ROOT / "activate" / "clariden.sh"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with running_slurm(tmp_path_factory.mktemp("slurm")) as found:
        yield found


def environments(output: str) -> list[dict[str, str]]:
    """The environments that tasks wrote, by rank."""
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return sorted(found, key=lambda env: int(env.get("SLURM_PROCID", "0")))


def test_every_rank_knows_who_it_is(slurm: Slurm) -> None:
    lines = f"source {SCRIPT}; uenvtool_rank_env; {SHOW}"

    ran = slurm.run("srun", "--ntasks=2", "--oversubscribe", "bash", "-c", lines)

    first, second = environments(ran.stdout)
    assert ran.returncode == 0, ran.stderr
    assert [env["RANK"] for env in (first, second)] == ["0", "1"]
    assert [env["LOCAL_RANK"] for env in (first, second)] == ["0", "1"]
    assert {env["WORLD_SIZE"] for env in (first, second)} == {"2"}
    assert {env["NNODES"] for env in (first, second)} == {"1"}
    assert first["MASTER_ADDR"] == second["MASTER_ADDR"] == first["SLURM_JOB_NODELIST"]
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert ran.stderr.count("MPICH_GPU_SUPPORT_ENABLED") <= 1


def test_the_tasks_of_two_nodes_meet_at_the_first(slurm: Slurm) -> None:
    lines = f"source {SCRIPT}; uenvtool_rank_env; getent hosts $MASTER_ADDR >&2 || exit 3; {SHOW}"
    shape = ["--nodes=2", "--ntasks-per-node=4", "--gpus-per-task=1", "--cpus-per-task=72"]

    ran = slurm.run("srun", *shape, "bash", "-c", lines)

    tasks = environments(ran.stdout)
    assert ran.returncode == 0, ran.stderr
    assert [(env["RANK"], env["LOCAL_RANK"]) for env in tasks] == [(str(i), str(i % 4)) for i in range(8)]
    assert {(env["WORLD_SIZE"], env["NNODES"], env["MASTER_ADDR"], env["OMP_NUM_THREADS"]) for env in tasks} == {
        ("8", "2", tasks[0]["SLURMD_NODENAME"], "72")
    }
    assert len({env["SLURMD_NODENAME"] for env in tasks}) == 2


def test_an_override_is_said_by_one_rank_only(slurm: Slurm) -> None:
    env = {"MPICH_GPU_SUPPORT_ENABLED": "1"}

    ran = slurm.run("srun", "--ntasks=2", "--oversubscribe", "bash", "-c", f"source {SCRIPT}", env=env)

    assert len([line for line in ran.stderr.splitlines() if "MPICH_GPU_SUPPORT_ENABLED" in line]) == 1


@pytest.mark.parametrize("options", [[], ["--ntasks=2", "--cpus-per-task=1"], ["--cpus-per-task=2"]])
def test_the_threads_are_the_cores_of_a_task(slurm: Slurm, options: list[str]) -> None:
    ran = slurm.run("srun", "--oversubscribe", *options, "bash", "-c", f"source {SCRIPT}; {SHOW}")

    for env in environments(ran.stdout):
        cores = env.get("SLURM_CPUS_PER_TASK") or str(int(env["SLURM_CPUS_ON_NODE"]) // int(env["SLURM_NTASKS"]))
        assert env["OMP_NUM_THREADS"] == cores


def test_two_jobs_at_once_take_two_ports(slurm: Slurm, tmp_path: Path) -> None:
    job = tmp_path / "job.sh"
    job.write_text(f"#!/bin/bash\nset -euo pipefail\nsource {SCRIPT}\nuenvtool_rank_env\n{SHOW}\n")
    outputs = [tmp_path / "one", tmp_path / "two"]

    for output in outputs:
        sent = slurm.run("sbatch", "--wait", "--ntasks=1", f"--output={output}", "--chdir=/tmp", str(job))
        assert sent.returncode == 0, sent.stderr + output.read_text()

    ports = [environments(output.read_text())[0]["MASTER_PORT"] for output in outputs]
    assert ports[0] != ports[1]


def test_a_job_is_told_of_the_network_option_that_alt_read_needs(slurm: Slurm, tmp_path: Path) -> None:
    ours = tmp_path / "ours.sh"
    ours.write_text(text(plan("clariden", recipe="pytorch-2.9", runtime="uenv"), "bash", "a command"))

    without = slurm.run("srun", "bash", "-c", f"source {ours}")
    told = slurm.run("srun", "bash", "-c", f"source {ours}", env={"SLURM_NETWORK": "single_node_vni,disable_rdzv_get"})

    assert "#SBATCH --network=disable_rdzv_get" in without.stderr
    assert "disable_rdzv_get" not in told.stderr


def test_export_gives_a_step_the_variables(slurm: Slurm) -> None:
    option = text(plan("clariden", recipe="pytorch-2.9", runtime="uenv"), "slurm", "a command")

    ran = slurm.run("srun", option, "bash", "-c", SHOW)

    (env,) = environments(ran.stdout)
    assert env["NCCL_NET"] == "AWS Libfabric"
    assert env["NCCL_PROTO"] == "^LL128"


@pytest.mark.parametrize("value", ["a b", " a ", "$(id)", "`id`", "a=b", "\\", "ü", "*", "a;b", "", "^LL128"])
def test_export_holds_any_value_that_is_not_refused(slurm: Slurm, value: str) -> None:
    ran = slurm.run("srun", f"--export=ALL,MINE={slurm_text('MINE', value)},OTHER=1", "bash", "-c", SHOW)

    (env,) = environments(ran.stdout)
    assert (env["MINE"], env["OTHER"]) == (value, "1")
