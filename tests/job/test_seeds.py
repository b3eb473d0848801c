"""Compare jobs with the published scripts: each setting is present, or has a recorded reason."""

from __future__ import annotations

import json
import re

import pytest
import tomlkit

from tests.conftest import Cli
from tests.support.seeds import script

ALPS = ("--system", "clariden", "--account", "g123")
GUIDE_UENV = {
    "MASTER_PORT": "the job's own: a fixed one is shared by all jobs of a node",
    "WORLD_SIZE": "set in the step, where SLURM_STEP_NUM_TASKS is the number of ranks",
    "OMP_NUM_THREADS": "72: the cores of a rank, since 288 are asked for",
    "FI_CXI_DEFAULT_TX_SIZE": "16384: 32768 is over what libfabric takes (docs-2026)",
    "--cpus-per-task": "72: all cores of a rank",
    "--job-name": "of the script that runs",
    "--nodes": "a placeholder there",
    "--account": "a placeholder there",
    "--time": "the system's own",
}
"""What the guide's uenv job has with another value, and why."""
ABSENT = {
    (0, "--environment"): {
        "TRITON_HOME": "fails under the Container Engine (docs-2025)",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "in the EDF, not on the host",
        "CUDA_CACHE_DISABLE": "in the EDF, not on the host",
        "MPICH_GPU_SUPPORT_ENABLED": "in the EDF, not on the host",
        "OMP_NUM_THREADS": "in the EDF, not on the host",
    },
    (1, "--uenv"): {},
    (1, "--environment"): {},
    (0, "--uenv"): {},
    (4, "apptainer"): {
        "APPTAINERENV_TRAINING_SCRIPT": "the words of the command are data, not a text that is split",
        "APPTAINERENV_TORCHRUN_PATH": "/usr/local/bin/torchrun would miss an overlay",
        "APPTAINERENV_head_node_ip": "MASTER_ADDR goes into the container by itself",
        "APPTAINERENV_SLURM_JOB_NUM_NODES": "SLURM_* go into the container by themselves",
        "APPTAINERENV_SLURM_GPUS_ON_NODE": "a number in the job",
    },
}
OPTIONS_ABSENT = {
    "--error": "one file for both; docs-2025, note 1 of its job",
    "--gpus-per-task": "all GPUs are visible, and LOCAL_RANK is the index of a rank's own: as frameworks expect",
}
OURS = {
    (0, "--uenv"): (*ALPS, "--image", "pytorch/v2.6.0:v1"),
    (0, "--environment"): (*ALPS, "--runtime", "ce", "--image", "nvcr.io#nvidia/pytorch:25.04-py3"),
    (1, "--uenv"): (*ALPS, "--recipe", "pytorch-2.6"),
    (1, "--environment"): (*ALPS, "--runtime", "ce", "--image", "nvcr.io#nvidia/pytorch:25.06-py3"),
    (4, "apptainer"): ("--system", "olivia-2025", "--account", "nn1"),
}


def files(cli: Cli, key: tuple[int, str]) -> dict[str, str]:
    answer = cli("job", "--json", *OURS[key], "--", "python", "train.py")
    assert answer.code == 0, answer.stderr
    found: dict[str, str] = json.loads(answer.stdout)["files"]
    return found


def exported(text: str) -> set[str]:
    return set(re.findall(r"(?:^|\|\|)\s*export (\w+)=", text, re.MULTILINE))


@pytest.mark.parametrize("key", OURS, ids=str)
def test_each_option_of_the_seed_is_in_our_job(cli: Cli, key: tuple[int, str]) -> None:
    ours = files(cli, key)["job.sh"]

    wanted = set(re.findall(r"^#SBATCH (--[\w-]+)", script(*key), re.MULTILINE))

    assert {name for name in wanted if f"#SBATCH {name}" not in ours} <= set(OPTIONS_ABSENT)


@pytest.mark.parametrize("key", OURS, ids=str)
def test_each_variable_of_the_seed_is_in_our_job_or_absent_with_a_reason(cli: Cli, key: tuple[int, str]) -> None:
    ours = files(cli, key)["job.sh"]
    names = exported(ours) | set(re.findall(r'\b(\w+)="?\$', ours)) | set(re.findall(r"--env (\w+)=", ours))

    missing = exported(script(*key)) - names

    assert missing == set(ABSENT[key])


def test_the_values_of_the_guide_are_ours_or_differ_with_a_reason(cli: Cli) -> None:
    seed, ours = script(0, "--uenv"), files(cli, (0, "--uenv"))["job.sh"]
    form = r"^(?:export (\w+)=|#SBATCH (--[\w-]+)=)\"?(?:\$\{\w+-)?([^\"}\n#]*?)\"?\}?\"?\s*(?:#.*)?$"
    values = [
        {one or other: value for one, other, value in re.findall(form, text, re.MULTILINE)} for text in (seed, ours)
    ]

    different = {name for name, value in values[0].items() if name in values[1] and values[1][name] != value}

    assert different <= set(GUIDE_UENV), {name: (values[0][name], values[1][name]) for name in different}


@pytest.mark.parametrize("number", [0, 1])
def test_what_the_seeds_edf_has_is_in_ours(cli: Cli, number: int) -> None:
    text = re.sub(r"= <WORKDIR>", '= "w"', script(number, "image ="))
    seed = tomlkit.parse(text).unwrap()
    ours = tomlkit.parse(files(cli, (number, "--environment"))["job.toml"]).unwrap()

    assert set(seed) <= set(ours)
    assert set(seed["env"]) - set(ours["env"]) <= {"NCCL_DEBUG"}  # for debugging only: it fills the log of each rank
    for name in set(seed["env"]) & set(ours["env"]):
        assert ours["env"][name] == seed["env"][name]
    # /iopstor of the guide is /iopsstor; /users/NAME/my-app is the user's own
    assert {"/capstor:/capstor", "/iopsstor:/iopsstor"} <= set(ours["mounts"])


def test_what_olivia_binds_is_bound(cli: Cli) -> None:
    seed, ours = script(4, "apptainer"), files(cli, (4, "apptainer"))["job.sh"]
    host = dict(re.findall(r"^(HOST_\w+)=(\S+)", seed, re.MULTILINE))

    for name, inside in re.findall(r"--bind \$(\w+):(\S+)", seed):
        assert f"  {host[name]}:{inside} " in ours
    for setting in re.findall(r"--env (\w+_HOME=\S+)", seed):
        assert f"--env {setting}" in ours
    for option in ("--nnodes=", "--rdzv", "endpoint="):
        assert option in ours
    assert "pkill" not in ours
    assert "29500" not in ours


def test_the_pods_of_rcp_have_what_the_seed_sets(cli: Cli) -> None:
    answer = cli("job", "--json", "--system", "rcp", "--image", "reg/x:v1", "--", "python", "train.py")
    ours = json.loads(answer.stdout)["files"]
    seed = script(3, "tee rank_")

    everything = "\n".join(ours.values())
    absent = exported(seed) - {name for name in exported(seed) if re.search(rf"\b{name}\b", everything)}

    assert absent <= {"NCCL_DEBUG", "PROCESSES_PER_NODE"}  # debugging; RUNAI_NUM_OF_GPUS is used as it is
    for option in (
        "--nnodes=",
        "--rdzv-endpoint=",
        "--rdzv-backend=c10d",
        "--nproc-per-node=",
        "--max-restarts=0",
        "--tee=",
    ):
        assert option in ours["job.sh"]
    assert "| tee" not in ours["job.sh"]
