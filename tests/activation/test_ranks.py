"""uenvtool_rank_env: what torch.distributed reads, from Slurm's or Run:ai's variables."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.shells import ALL, Ran, run, script

STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_PROCID": "6",
    "SLURM_LOCALID": "2",
    "SLURM_NTASKS": "1",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_NNODES": "4",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_JOB_NODELIST": "nid[001001-001004]",
    "SLURM_STEP_NODELIST": "nid[001003-001004]",
}
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NNODES", "MASTER_ADDR", "MASTER_PORT")


def ranked(shell: str, env: dict[str, str], system: str = "clariden") -> Ran:
    return run(shell, f"source {script(system, shell)}\nuenvtool_rank_env\nSNAP\n", {"UENVTOOL_QUIET": "1", **env})


@pytest.mark.parametrize("shell", ALL)
def test_a_step_gives_the_ranks(shell: str) -> None:
    env = ranked(shell, STEP).env

    assert [env[name] for name in NAMES] == ["6", "2", "8", "2", "nid001003", "14711"]


@pytest.mark.parametrize("shell", ALL)
def test_an_address_and_a_port_that_the_user_set_are_kept(shell: str) -> None:
    env = ranked(shell, {**STEP, "MASTER_ADDR": "me", "MASTER_PORT": "1234"}).env

    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("me", "1234")


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("nid001234", "nid001234"),
        ("nid001234,nid001300", "nid001234"),
        ("nid[001234-001236,001300],login1", "nid001234"),
        ("nid[001300,001310-001312]", "nid001300"),
        ("a-b[7-9]", "a-b7"),
        ("rack[0-1]node[3-4]", "rack0node3"),
        ("x[1-2].site", "x1.site"),
        ("localhost", "localhost"),
    ],
)
def test_the_first_node_is_the_master(shell: str, nodes: str, first: str) -> None:
    assert ranked(shell, {**STEP, "SLURM_STEP_NODELIST": nodes}).env["MASTER_ADDR"] == first


@settings(max_examples=40, deadline=None)
@given(job=st.integers(1, 2**31))
def test_a_port_is_of_the_job_and_never_6000(job: int) -> None:
    port = int(ranked("bash", {**STEP, "SLURM_JOB_ID": str(job)}).env["MASTER_PORT"])
    neighbour = int(ranked("bash", {**STEP, "SLURM_JOB_ID": str(job + 1)}).env["MASTER_PORT"])

    assert 10000 <= port < 30000  # above 6000 (X11), below the ports that the kernel gives out from 32768 on
    assert port != neighbour


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("system", ["rcp"])
def test_a_pod_of_runai_counts_the_gpus(shell: str, system: str) -> None:
    pod = {"PET_NNODES": "3", "RUNAI_NUM_OF_GPUS": "8", "RANK": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "23456"}

    env = ranked(shell, pod, system).env

    assert [env[name] for name in NAMES] == ["2", "0", "24", "3", "10.0.0.1", "23456"]


@pytest.mark.parametrize("shell", [param for param in ALL if param.values[0] != "tcsh"])
def test_outside_of_a_job_there_is_no_rank_and_it_says_so(shell: str) -> None:
    ran = ranked(shell, {})

    assert "RANK" not in ran.env
    assert "not inside srun" in ran.stderr


@pytest.mark.parametrize("shell", ALL)
def test_numbers_that_are_none_are_not_computed_with(shell: str) -> None:
    job = {**STEP, "SLURM_JOB_ID": "a[$(touch ran)]", "SLURM_GPUS_ON_NODE": "x", "SLURM_CPUS_PER_TASK": "`touch ran`"}

    ran = ranked(shell, job)

    assert ran.env["MASTER_PORT"] == "29500"
    assert "OMP_NUM_THREADS" not in ran.env
