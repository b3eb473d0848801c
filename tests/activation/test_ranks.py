"""Test the line that starts training: each srun task gets the variables of torch.distributed, or ends."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.shells import ALL, Ran, run, script
from uenvtool.activation.template import rank_program

STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "6",
    "SLURM_LOCALID": "2",
    "SLURM_NODEID": "1",
    "SLURM_NTASKS": "1",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    "SLURM_NNODES": "4",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_JOB_NODELIST": "nid[001001-001004]",
    "SLURM_STEP_NODELIST": "nid[001003-001004]",
}
BATCH = {name: value for name, value in STEP.items() if "STEP" not in name} | {"SLURM_PROCID": "0"}
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NNODES", "MASTER_ADDR", "MASTER_PORT")
LINE = """sh -uc 'eval "$UENVTOOL_RANK"'"""
"""What the documentation writes after srun."""


def ranked(shell: str, env: dict[str, str], command: str = "/usr/bin/env -0", system: str = "clariden") -> Ran:
    """Source a script and start a command as the documentation does."""
    return run(shell, f"source {script(system)}\n{LINE} {command}\n", {"UENVTOOL_QUIET": "1", **env})


def environment(ran: Ran) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in ran.stdout.split("\0") if entry)


@pytest.mark.parametrize("shell", ALL)
def test_a_task_gets_its_rank(shell: str) -> None:
    env = environment(ranked(shell, STEP))

    assert [env[name] for name in NAMES] == ["6", "2", "8", "4", "2", "nid001003", "14711"]
    assert not [name for name in env if name.startswith("ue_")]


@pytest.mark.parametrize("shell", ALL)
def test_arguments_arrive_as_they_are(shell: str) -> None:
    ran = ranked(shell, STEP, "/usr/bin/printf '<%s>' 'a b' '$HOME' '*' ''")

    assert ran.stdout == "<a b><$HOME><*><>"


@pytest.mark.parametrize("shell", ALL)
def test_the_exit_code_is_that_of_the_command(shell: str) -> None:
    assert ranked(shell, STEP, "sh -c 'exit 7'").code == 7


def test_torchrun_finds_its_node_and_its_address() -> None:
    env = environment(ranked("bash", {**STEP, "SLURM_STEP_NUM_TASKS": "2"}))

    assert (env["PET_NNODES"], env["PET_NODE_RANK"]) == ("2", "1")
    assert (env["PET_MASTER_ADDR"], env["PET_MASTER_PORT"]) == ("nid001003", "14711")


@pytest.mark.parametrize("shell", ALL)
def test_an_address_and_a_port_that_the_user_set_are_kept(shell: str) -> None:
    env = environment(ranked(shell, {**STEP, "MASTER_ADDR": "me", "MASTER_PORT": "1234"}))

    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("me", "1234")


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
def test_the_first_node_is_the_master(nodes: str, first: str) -> None:
    assert environment(ranked("bash", {**STEP, "SLURM_STEP_NODELIST": nodes}))["MASTER_ADDR"] == first


@settings(max_examples=8)
@example(job=1, step=-6)
@given(job=st.integers(1, 2**31), step=st.integers(0, 1000))
def test_a_port_is_of_the_job_and_step_and_never_6000(job: int, step: int) -> None:
    def port(job: int, step: int) -> int:
        env = {"PATH": "/usr/bin:/bin", **STEP, "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}
        words = ["sh", "-uc", rank_program(), "sh", "-c", "echo $MASTER_PORT"]
        return int(subprocess.run(words, env=env, capture_output=True, check=True).stdout)

    assert 10000 <= port(job, step) < 30000  # above 6000 (X11), below the ports that the kernel gives out
    assert len({port(job, step), port(job + 1, step), port(job, step + 1)}) == 3


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize("more", [{}, {"SLURM_STEP_ID": "-5", "SLURM_STEPID": "-5"}], ids=["22.05", "26.05"])
def test_in_the_batch_script_there_is_no_rank_and_it_says_so(shell: str, more: dict[str, str]) -> None:
    ran = ranked(shell, {**BATCH, **more})

    env = environment(ran)
    assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["NNODES"]) == ("nid001001", "14711", "4")
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & set(env)
    assert "RANK is unset: not started by srun" in ran.stderr


@pytest.mark.parametrize("shell", ALL)
@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "RANK is unset: not a Slurm job"),
        ({**STEP, "UENVTOOL_VENV": "/no/where"}, "virtual environment not found: /no/where"),
        *(
            ({name: STEP[name] for name in STEP if name != lacking}, lacking)
            for lacking in ("SLURM_PROCID", "SLURM_LOCALID")
        ),
    ],
    ids=["no job", "no overlay", "no rank", "no rank on the node"],
)
def test_what_would_train_wrongly_is_not_started(shell: str, env: dict[str, str], said: str) -> None:
    ran = ranked(shell, env)

    assert (ran.code != 0, ran.stdout) == (True, "")
    assert said in ran.stderr


@pytest.mark.parametrize("shell", ALL)
def test_without_the_script_nothing_is_started(shell: str) -> None:
    ran = run(shell, f"{LINE} /usr/bin/env -0\n", STEP)

    assert (ran.code != 0, ran.stdout) == (True, "")
    assert "UENVTOOL_RANK" in ran.stderr
