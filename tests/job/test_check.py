"""`uenvtool job check`: the flaws of scripts and EDFs, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Answer
from tests.support.seeds import written
from uenvtool.knowledge.rule_reader import load_rules

Cli = Callable[..., Answer]
Write = Callable[[str, str | bytes], Path]

SEEDS = {
    (0, "--uenv"): {
        "core-dumps", "placeholder", "set-x-cat", "port-fixed", "tuning-value", "venv-unpacked",
    },
    (0, "image ="): {"placeholder", "edf-iopstor", "edf-syntax", "edf-variant", "tuning-guard"},
    (0, "--environment"): {
        "core-dumps", "placeholder", "set-x-cat", "port-fixed", "triton-home-in-container",
    },
    (1, "image ="): {"edf-variant", "tuning-guard"},
    (1, "--environment"): {"placeholder", "cores-not-asked", "output-folder", "venv-unpacked"},
    (1, "--uenv"): {
        "placeholder", "core-dumps", "cores-not-asked", "output-folder", "tuning-missing", "venv-unpacked",
    },
    (3, "submit-dist"): {"runai-small-shm"},
    (3, "tee rank_"): {"roce-gid-from-grep", "tee-hides-failure"},
    (4, "apptainer"): {
        "placeholder", "core-dumps", "srun-cores", "port-fixed", "failure-hidden", "kill-by-pattern", "tuning-guard",
    },
}  # fmt: skip
"""The flaws of each script of the seeds: what their own later pages correct, and what was seen in a real Slurm."""


def found(cli: Cli, *files: Path, options: tuple[str, ...] = ()) -> list[dict[str, object]]:
    answer = cli("job", "check", "--json", *options, *files)
    data: list[dict[str, object]] = json.loads(answer.stdout)
    assert answer.code == (1 if data else 0), answer.stderr
    return data


def rules(data: list[dict[str, object]]) -> set[object]:
    return {finding["rule"] for finding in data}


@pytest.mark.parametrize(("number", "containing"), SEEDS)
def test_the_flaws_of_each_seed_are_found_and_no_other(cli: Cli, place: Path, number: int, containing: str) -> None:
    assert rules(found(cli, written(place, number, containing))) == SEEDS[number, containing]


def test_a_finding_has_its_place_its_cost_and_the_fix(cli: Cli, write: Write) -> None:
    file = write("job.sh", "#!/bin/bash\n#SBATCH --nodes=2\nulimit -c 0\n  export MASTER_PORT=29500\n")

    answer = cli("job", "check", file)

    assert answer.code == 1
    assert "job.sh:4:10: MASTER_PORT=29500: the port is the same in each job. Cost: " in answer.stderr
    assert "[port-fixed]\nhint: take the job's own: $((10000 + SLURM_JOB_ID % 20000))" in answer.stderr


HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --cpus-per-task=8\nulimit -c 0\n"
FLAWS = {
    "rank-outside-step": HEAD + "export RANK=0\nsrun -c 8 python train.py\n",
    "rank-before-step": HEAD + 'srun -c 8 bash -c "export RANK=$SLURM_PROCID; python train.py"\n',
    "rank-from-wrong-variable": HEAD + "srun -c 8 bash -c 'export RANK=$SLURM_LOCALID; python train.py'\n",
    "world-size-from-wrong-variable": HEAD + "export WORLD_SIZE=$SLURM_NNODES\nsrun -c 8 python train.py\n",
    "master-addr-in-step": HEAD + 'srun -c 8 bash -c "export MASTER_ADDR=\\$(hostname); python train.py"\n',
    "port-x11": HEAD + "export MASTER_PORT=6000 # uenvtool: ignore port-fixed\n",
    "port-fixed": HEAD + "srun -c 8 torchrun --rdzv_endpoint=$head:29500 train.py\n",
    "placeholder": HEAD.replace("2", "<NODES>"),
    "option-behind-command": HEAD + "#SBATCH --time=1:00:00\n",
    "output-folder": "#SBATCH -o logs/%j.out\nulimit -c 0\n",
    "core-dumps": "#SBATCH -N 2\nsrun hostname\n",
    "srun-cores": HEAD + "srun bash -c 'python train.py'\n",
    "cores-not-asked": "#SBATCH --ntasks-per-node=4\nulimit -c 0\nsrun python train.py\n",
    "failure-hidden": HEAD + "srun -c 8 python train.py\necho done\n",
    "tee-hides-failure": "python train.py 2>&1 | tee log\nexit $?\n",
    "kill-by-pattern": "#!/bin/sh\npkill -f nvidia-smi\n",
    "set-x-cat": "set -x cat $0\n",
    "venv-unpacked": HEAD + "source $SCRATCH/venv/bin/activate\nsrun -c 8 python train.py\n",
    "pythonpath-by-python": "export PYTHONPATH=\"$(python -c 'import site'):$PYTHONPATH\"\n",
    "repeated": "export NCCL_NET=Socket\nexport NCCL_NET=IB\n",
    "environment-as-option": "#SBATCH --environment=./env.toml\n",
    "triton-home-in-container": "export TRITON_HOME=/dev/shm/\nsrun --environment=e.toml python train.py\n",
    "host-setting-in-container": "export FI_PROVIDER=cxi\nsrun --environment=e.toml python train.py\n",
    "activation-on-host": "source /opt/venv/bin/activate\nsrun --environment=e.toml python train.py\n",
    "runai-no-roce": "runai submit-dist pytorch --large-shm --workers 1 -- torchrun train.py\n",
    "runai-small-shm": "runai submit --name x -- python train.py\n",
    "roce-gid-from-grep": "export NCCL_IB_GID_INDEX=$(grep 'RoCE v2' /sys/x)\n",
    "tuning-value": "#SBATCH --uenv=pytorch/v2.6.0:v1\nexport NCCL_NET_GDR_LEVEL=SYS\n",
    "tuning-unset": "#SBATCH --uenv=pytorch/v2.6.0:v1\nexport NCCL_NET_PLUGIN=ofi\n",
    "tuning-conflict": "#SBATCH --uenv=x\nexport NCCL_NET='AWS Libfabric'\nexport NCCL_NET_PLUGIN=ofi\n",
    "tuning-missing": "#SBATCH --uenv=pytorch/v2.6.0:v1\nsrun python train.py\n",
    "tuning-guard": "#SBATCH --uenv=mine\nexport NCCL_PROTO=LL128\n",
    "tuning-need": "#SBATCH --uenv=mine\nexport FI_CXI_RDZV_PROTO=alt_read\n",
}
"""One small script for each rule."""
EDF = 'image = "nvcr.io#nvidia/pytorch:25.06-py3"\n[annotations]\ncom.hooks.aws_ofi_nccl.enabled = "true"\n'
EXTENDED = 'image = "/images/ngc-pytorch:26.02-py3-alps6.sqsh"\n'
EDF_FLAWS = {
    "edf-syntax": "image = x\n",
    "edf-unbraced": EDF.replace("nvcr.io#", "$SCRATCH/"),
    "edf-users-mounted": 'mounts = ["/capstor", "/users"]\n' + EDF,
    "edf-iopstor": 'mounts = [\n  "/capstor", # data\n  "/iopstor",\n]\n' + EDF,
    "edf-variant": EDF + 'com.hooks.aws_ofi_nccl.variant = "cuda12"\n',
    "edf-no-hook": 'image = "nvcr.io#nvidia/pytorch:25.06-py3"\n',
    "extended-image-hook": EXTENDED + '[annotations]\ncom.hooks.aws_ofi_nccl.enabled = "true"\n',
    "extended-image-entrypoint": EXTENDED,
    "extended-image-cxi": EXTENDED + "entrypoint = true\n",
    "triton-home-in-container": EDF + '[env]\nTRITON_HOME = "/dev/shm/"\n',
    "repeated": EDF + '[env]\nNCCL_DEBUG = "INFO"\nNCCL_DEBUG = "WARN"\n',
}


def test_each_rule_is_found_by_a_test() -> None:
    assert set(load_rules()) == set(FLAWS) | set(EDF_FLAWS)


@pytest.mark.parametrize("rule", FLAWS)
def test_a_flaw_of_a_script_is_found(cli: Cli, write: Write, rule: str) -> None:
    assert rule in rules(found(cli, write("job.sh", FLAWS[rule])))


@pytest.mark.parametrize("rule", EDF_FLAWS)
def test_a_flaw_of_an_edf_is_found(cli: Cli, write: Write, rule: str) -> None:
    assert rule in rules(found(cli, write("env.toml", EDF_FLAWS[rule])))


CLEAN = {
    "a step sets its ranks, quoted": HEAD + "srun -c 8 bash -c 'export RANK=$SLURM_PROCID; exec python train.py'\n",
    "a step sets its ranks, escaped": HEAD + 'srun -c 8 bash -c "export RANK=\\$SLURM_PROCID; python train.py"\n',
    "the batch script names itself as the head": HEAD + "export MASTER_ADDR=$(hostname)\nsrun -c 8 python t.py\n",
    "the head's name, in a step, expanded before it": HEAD
    + 'srun -c 8 bash -c "export MASTER_ADDR=$(hostname); python t.py"\n',
    "the number of tasks, in three ways": HEAD
    + "export WORLD_SIZE=$SLURM_NPROCS\nsrun -c 8 python t.py\n"
    + "WORLD_SIZE=$((SLURM_NNODES * SLURM_NTASKS_PER_NODE)) srun -c 8 python t.py\n"
    + "WORLD_SIZE=$(($SLURM_NTASKS_PER_NODE*${SLURM_JOB_NUM_NODES})) srun -c 8 python t.py\n",
    "the exit code is kept": HEAD + "srun -c 8 python t.py\nstatus=$?\nkill $monitor\nexit $status\n",
    "pipefail": "set -o pipefail\npython train.py | tee log\n",
    "a comment is no command": "# pkill -f all, MASTER_PORT=29500\necho fine # export MASTER_PORT=29500\n",
    "a heredoc is no command": "cat > run.sh <<'END'\nexport MASTER_PORT=29500\nEND\n",
    "words are no commands": "echo 'pkill -f; export MASTER_PORT=29500'\n",
    "a packed environment": HEAD + "source /user-tools/bin/activate\nsrun -c 8 python train.py\n",
    "what is in activate/ is sourced": "#SBATCH --uenv=pytorch/v2.6.0:v1\nsource activate/clariden.sh\n",
    "an uenv that sets its variables itself": "#SBATCH --uenv=pytorch/v2.9.1:v2 --network=disable_rdzv_get\n"
    "export MPICH_GPU_SUPPORT_ENABLED=0\nsrun python train.py\n",
}


@pytest.mark.parametrize("case", CLEAN)
def test_what_is_right_is_left_alone(cli: Cli, write: Write, case: str) -> None:
    answer = cli("job", "check", write("job.sh", CLEAN[case]))

    assert (answer.code, answer.stderr) == (0, "job.sh: fine\n")


def test_a_comment_switches_a_rule_off_on_its_line_and_the_next(cli: Cli, write: Write) -> None:
    text = "# uenvtool: ignore port-fixed\nexport MASTER_PORT=29500\nexport MASTER_PORT=29500\n"

    assert [finding["line"] for finding in found(cli, write("job.sh", text))] == [3]


ASKED = "#SBATCH --cpus-per-task=72\nulimit -c 0\nsrun {}python train.py\n"


@pytest.mark.parametrize(
    ("text", "system", "is_found"),
    [
        (ASKED.format(""), "clariden", False),
        (ASKED.format("--uenv=mine "), None, False),  # all systems that have uenv have Slurm 24.05
        (ASKED.format(""), "olivia", True),  # whose version is not known
        (ASKED.format("-c 72 "), "olivia", False),
    ],
)
def test_the_version_of_slurm_decides_if_srun_takes_the_cores(
    cli: Cli, write: Write, text: str, system: str | None, is_found: bool
) -> None:
    data = found(cli, write("job.sh", text), options=("--system", system) if system else ())

    assert ("srun-cores" in rules(data)) == is_found


UENV = "#SBATCH --uenv=mine\n"
APPTAINER = "export FI_PROVIDER=cxi\nsrun apptainer exec {} image.sif python train.py\n"
IMAGE = 'image = "nvcr.io#nvidia/pytorch:25.06-py3"\n[annotations]\ncom.hooks.aws_ofi_nccl.enabled = "true"\n'
BY_HOST = IMAGE + 'com.hooks.netstack.source = "host"\n'


@pytest.mark.parametrize(
    ("name", "text", "system", "is_found"),
    [
        ("job.sh", UENV, None, True),
        ("job.sh", UENV, "santis", True),
        ("job.sh", UENV, "bristen", False),
        ("job.sh", UENV.replace("mine", "pytorch/v2.6.0:v1"), "clariden", False),  # NCCL 2.26
        ("job.sh", UENV.replace("mine", "pytorch/v2.9.1:v2"), "clariden", False),  # its view sets it
        ("job.sh", UENV + "export NCCL_PROTO=^LL128\n", "clariden", False),
        ("job.sh", UENV + 'export NCCL_PROTO="${NCCL_PROTO:-Simple}"\n', "clariden", False),
        ("job.sh", UENV + 'export NCCL_PROTO="$PROTOCOLS"\n', "clariden", False),
        ("job.sh", UENV + "export NCCL_LL128_C2C=0\n", "clariden", False),
        ("job.sh", UENV + "export FI_CXI_RDZV_THRESHOLD=0 FI_CXI_RDZV_GET_MIN=0\n", "clariden", False),
        ("job.sh", UENV + "export FI_CXI_RDZV_THRESHOLD=0\n", "clariden", True),
        ("job.sh", UENV + "source activate/clariden.sh\n", "clariden", False),
        ("job.sh", APPTAINER, None, True),
        ("job.sh", APPTAINER.replace("cxi", "efa"), None, False),  # nothing shows that this is Slingshot
        ("job.sh", APPTAINER.replace("cxi", "efa"), "olivia", True),
        ("job.sh", APPTAINER.format("--env NCCL_PROTO=${NCCL_PROTO:-^LL128}"), "olivia", False),
        ("job.sh", "module load NCCL/2.29.2-GCCcore-14.2.0\n" + APPTAINER, "olivia", False),
        ("env.toml", IMAGE, None, True),
        ("env.toml", IMAGE, "santis", True),
        ("env.toml", IMAGE, "daint", False),  # its hook sets it
        ("env.toml", BY_HOST, "daint", True),
        ("env.toml", IMAGE + '[env]\nNCCL_PROTO = "^LL128"\n', "santis", False),
        ("env.toml", 'image = "/images/ngc-pytorch:26.02-py3-alps6.sqsh"\n', "clariden", False),  # the image sets it
    ],
)
def test_a_way_to_wrong_numbers_is_an_error(
    cli: Cli, write: Write, name: str, text: str, system: str | None, is_found: bool
) -> None:
    data = found(cli, write(name, text), options=("--system", system) if system else ())

    assert ("tuning-guard" in rules(data)) == is_found, data


@pytest.mark.parametrize(
    ("label", "flaws"),
    [
        ("pytorch/v2.8.0:v1", {"tuning-missing": "MPICH_GPU_SUPPORT_ENABLED", "tuning-value": "DEFAULT_TX_SIZE=32768"}),
        ("pytorch/v2.9.1:v2", {"tuning-missing": "MPICH_GPU_SUPPORT_ENABLED", "tuning-need": "disable_rdzv_get"}),
    ],
)
def test_what_the_view_of_a_published_uenv_sets_is_looked_at_too(
    cli: Cli, write: Write, label: str, flaws: dict[str, str]
) -> None:
    data = found(cli, write("job.sh", f"#SBATCH --uenv={label}\nsrun python train.py\n"))

    assert rules(data) == set(flaws)
    assert all(flaws[str(each["rule"])] in str(each["detail"]) for each in data)


def test_the_tuning_is_that_of_the_system_that_is_named(cli: Cli, write: Write) -> None:
    file = write("job.sh", "#SBATCH --uenv=mine\nexport NCCL_NET='AWS Libfabric'\nexport NCCL_NET_GDR_LEVEL=SYS\n")

    named = found(cli, file, options=("--system", "clariden"))

    assert "tuning-value" in rules(named)
    assert "PHB" in str([each["detail"] for each in named if each["rule"] == "tuning-value"])


@pytest.mark.parametrize("name", ["port-fixed", "tuning-value"])
def test_explain_knows_each_rule(cli: Cli, name: str) -> None:
    answer = cli("explain", name)

    assert answer.code == 0, answer.stderr
    assert answer.stdout.startswith(f"{name}  (uenvtool job check)\n  why:")
    assert "  source: " in answer.stdout


def test_explain_takes_rules_and_variables_together(cli: Cli) -> None:
    data = json.loads(cli("explain", "--json", "port-fixed", "NCCL_NET").stdout)

    assert [entry.get("rule") or entry["name"] for entry in data] == ["port-fixed", "NCCL_NET"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\0\1", "this is no text"), (None, "no such file")],
)
def test_what_is_no_script_is_refused(cli: Cli, write: Write, place: Path, content: bytes | None, message: str) -> None:
    file = write("job.sh", content) if content is not None else place / "job.sh"

    answer = cli("job", "check", file)

    assert answer.code == 2
    assert f"job.sh:1:1: {message}" in answer.stderr


@pytest.mark.parametrize(
    "text",
    ["", '"', "'", "$(", "${", "`", "a\\", "srun bash -c \"'", "<<X", "((", "\\\n", "x=$(y", '"$(' * 500, "( " * 3000,
     "bash -c 'bash -c \"bash -c x\"'", "#SBATCH", "#SBATCH -", "[", "x = [", 'mounts = ["'],
)  # fmt: skip
@pytest.mark.parametrize("name", ["job.sh", "env.toml"])
def test_broken_text_ends_in_an_answer(cli: Cli, write: Write, text: str, name: str) -> None:
    assert cli("job", "check", write(name, text)).code in (0, 1)


def test_rules_of_the_users_own_are_used_and_checked(cli: Cli, write: Write) -> None:
    write(
        "rules/site.yaml",
        "description: Ours.\nrules:\n  debug-queue:\n    look: [{directive: partition, value: debug}]\n"
        "    why: w\n    cost: c\n    fix: f\n    source: s\n",
    )
    file = write("job.sh", "#SBATCH -p debug\n")

    assert rules(found(cli, file)) == {"debug-queue"}
    wrong = write("rules/site.yaml", "description: Ours.\nrules:\n  x:\n    look: [{line: '('}]\n"
                  "    why: w\n    cost: c\n    fix: f\n    source: s\n")  # fmt: skip
    answer = cli("validate", wrong)
    assert answer.code == 2
    assert "rules/site.yaml:4:19: not a regular expression" in answer.stderr
