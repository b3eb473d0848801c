"""Test forms of problems that other people's scripts contain, next to forms of the same kind that are correct."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Write

JOB = "#!/bin/bash\n#SBATCH --nodes=2 --time=1:0:0 --ntasks-per-node=4 --gpus-per-node=4 --cpus-per-task=8\n"


def found(cli: Cli, file: Path, *options: str) -> list[tuple[int, str, str]]:
    """Return the line, the severity and the rule of each problem."""
    data = json.loads(cli("check", "--json", *options, file).stdout)
    return [(row["line"], row["severity"], row["rule"]) for row in data]


def of_rule(cli: Cli, write: Write, text: str, rule: str, *options: str) -> list[tuple[int, str]]:
    """Return the line and the severity of each problem that a rule finds in a text."""
    rows = found(cli, write("job.sh", text), "--all", *options)
    return [(line, severity) for line, severity, name in rows if name == rule]


FIELD = {
    # the script in tests/check/field, and its system: the line, the severity and the rule of each problem
    ("placeholders", None): [
        (6, "error", "placeholder"),
        (7, "error", "placeholder"),
        (8, "error", "placeholder"),
        (9, "error", "placeholder"),
        (10, "error", "placeholder"),
        (11, "warning", "unknown-slurm-variable"),
        (14, "hint", "no-environment"),
        (14, "hint", "srun-cores"),
        (15, "hint", "escaped-dollar"),
    ],
    ("install-in-every-task", None): [
        (9, "warning", "work-for-one-process"),
        (10, "hint", "srun-cores"),
        (10, "warning", "work-for-one-process"),
        (10, "hint", "no-environment"),
        (10, "warning", "work-for-one-process"),
        (11, "warning", "work-for-one-process"),
        (12, "hint", "srun-cores"),
    ],
    ("limits-of-clariden", "clariden"): [(3, "error", "limit-exceeded"), (10, "error", "unknown-view")],
    ("silent-conda-and-one-download", None): [
        (7, "hint", "nodes-by-name"),
        (14, "hint", "unknown-slurm-variable"),
        (15, "hint", "srun-cores"),
    ],
    ("silent-uenv-of-clariden", "clariden"): [],
}


@pytest.mark.parametrize(("name", "system"), FIELD)
def test_whole_script_has_its_expected_problems(cli: Cli, name: str, system: str | None) -> None:
    file = Path(__file__).parent / "field" / f"{name}.sbatch"

    assert found(cli, file, "--all", *(("--system", system) if system else ())) == FIELD[name, system]


PLACEHOLDERS = [
    "--partition=<partition name>", "--account=<your account>", "-A <account name>", "--mail-user={YOUR EMAIL}",
    "--mail-user { YOUR EMAIL }", "--account=[ACCOUNT]", "--account=[YOUR ACCOUNT HERE]", "--job-name='<job name>'",
    "--time=<hh:mm:ss>", "--time=HH:MM:SS", "--time=DD-HH:MM:SS", "--nodes=N", "--nodes=<number of nodes>",
    "--ntasks-per-node=NUM_TASKS", "--gpus-per-node=N_GPUS", "--account=project_465XXXXXX", "--account=xxx",
    "--account=ACCOUNT_NAME", "--partition=PARTITION", "--account=project_name", "--qos=CHANGE_ME", "--account=...",
    "--mail-user=name@example.com", "--mail-user=first.last@your-university.edu", "--output=/path/to/logs/%j.out",
    "--chdir=<path to the project> --time=1:0:0", "--reservation=REPLACE-ME", "--account=TODO",
]  # fmt: skip
NO_PLACEHOLDERS = [
    "--partition=gpu-a100", "--account=project_465000001", "--nodelist=gpu[1-4,7]", "--exclude=n[01, 03]",
    "--nodes=2-4", "--array=[1-4]", "--gpus=a100:2", "--gres=gpu:h100:4", "--time=1-00:00:00", "--time=UNLIMITED",
    "--constraint='[a100|h100]'", "--constraint=[rack1*2&rack2]", "--account=myproject", "--job-name=text2img[v1]",
    "--mail-user=n.name@ethz.ch", "--output=logs-%x/[%j].out", "--job-name=mytodolist", "--mail-user=me",
    "--comment='a {b} c'", "--partition=queue", "--account=projects",
]  # fmt: skip


def placeholders_among(cli: Cli, write: Write, options: list[str]) -> list[str]:
    """Return the options that are placeholders, in a script with one `#SBATCH` line for each option."""
    rows = of_rule(cli, write, "#!/bin/bash\n" + "".join(f"#SBATCH {option}\n" for option in options), "placeholder")

    assert {severity for _, severity in rows} <= {"error"}
    return [options[line - 2] for line, _ in rows]


def test_placeholder_with_a_space_or_in_any_bracket_is_an_error(cli: Cli, write: Write) -> None:
    assert placeholders_among(cli, write, PLACEHOLDERS) == PLACEHOLDERS


def test_value_with_brackets_or_capitals_is_no_placeholder(cli: Cli, write: Write) -> None:
    assert placeholders_among(cli, write, NO_PLACEHOLDERS) == []


@pytest.mark.parametrize(
    ("line", "is_placeholder"),
    [
        ("export HF_TOKEN=<your token here>", True),
        ("MODEL=<model dir>", True),
        ("cd [YOUR PROJECT DIR]", True),
        ("python t.py --data {your data path}", True),
        ("srun python t.py --model <model name>", True),
        ("sed -i 's/a/b/' <JOB_FILE>", True),
        ("sed -i 's/name: <JOB_NAME>/name: x/' job.yaml", False),
        ("sed -e '/<JOB_NAME>/d' \\\n  -e s,<TIME>,$t, job.yaml", False),
        ("text=${text//<JOB_NAME>/$name}", False),
        ("BOS='<s>'", False),
        ('PAD="<pad>"', False),
        ("if [ -d data ]; then ls; fi", False),
        ("echo '[your job has begun]'", False),
        ("python t.py < input > output", False),
        ("diff <(sort a) <(sort b)", False),
        ('curl -d \'{"model": "m"}\' localhost', False),
    ],
)
def test_placeholder_in_a_command(cli: Cli, write: Write, line: str, is_placeholder: bool) -> None:
    expected = [(3, "error")] if is_placeholder else []

    assert of_rule(cli, write, f"#!/bin/bash\n#SBATCH -N1\n{line}\n", "placeholder") == expected


OLD_SLURM = """\
extends: local
description: A cluster with an old Slurm.
scheduler: {name: slurm}
packages:
  slurm: {reason: r, source: s, buildable: false, externals: [{spec: slurm@VERSION, prefix: /usr}]}
"""


@pytest.mark.parametrize(
    ("version", "command", "severity"),
    [
        ("22.05.8", "srun bash -c 'python t.py'", "warning"),
        ("22.05.8", "srun --mem=0 python t.py -c 8", "warning"),
        ("22.05.8", "srun ./train.sh", "warning"),
        ("22.05.8", "srun -c 8 python t.py", None),
        ("24.05.4", "srun python t.py", None),
        (None, "srun python t.py", "hint"),
    ],
)
def test_cores_of_srun_matter_with_an_old_slurm_and_are_a_hint_with_an_unknown_one(
    cli: Cli, write: Write, version: str | None, command: str, severity: str | None
) -> None:
    write("systems/mine.yaml", OLD_SLURM.replace("VERSION", version or "1"))

    rows = of_rule(cli, write, f"{JOB}{command}\n", "srun-cores", *(("--system", "mine") if version else ()))

    assert rows == ([(3, severity)] if severity else [])


@pytest.mark.parametrize(
    ("version", "rule", "lines", "severities"),
    [
        ("25.05.1", "output-pattern", "#SBATCH --output=%S.out", ["warning"]),
        ("25.11.0", "output-pattern", "#SBATCH --output=%S.out", []),
        ("25.11.0", "options-in-conflict", "#SBATCH --gpus-per-node=2 --gres=gpu:2", []),
        ("26.05.1", "options-in-conflict", "#SBATCH --gpus-per-node=2 --gres=gpu:2", ["error"]),
        ("26.05.1", "options-in-conflict", "#SBATCH --gpus-per-node=2 --gres=nvme:1", []),
        ("22.05.8", "options-in-conflict", "#SBATCH --exclusive --oversubscribe", []),
        ("24-05-4", "options-in-conflict", "#SBATCH --exclusive --oversubscribe", ["error"]),
        ("23.02.7", "unknown-slurm-variable", "#SBATCH --gpus-per-task=2\nN=$SLURM_GPUS_PER_TASK", []),
        ("24-05-4", "unknown-slurm-variable", "#SBATCH --gpus-per-task=2\nN=$SLURM_GPUS_PER_TASK", ["warning"]),
        ("24-05-4", "unknown-slurm-variable", "#SBATCH --tres-per-task=cpu=2\nN=$SLURM_CPUS_PER_TASK", []),
    ],
)
def test_rule_depends_on_the_version_of_slurm(
    cli: Cli, write: Write, version: str, rule: str, lines: str, severities: list[str]
) -> None:
    write("systems/mine.yaml", OLD_SLURM.replace("VERSION", version))

    rows = of_rule(cli, write, f"#!/bin/bash\n{lines}\nhostname\n", rule, "--system", "mine")

    assert [severity for _, severity in rows] == severities


STEP = "srun -c 8 python t.py\n"
NO_ADVICE = {
    "somebody's conda on two nodes": f'eval "$(conda shell.bash hook)"\nconda activate x\n{STEP}',
    "conda by its script": f"source ~/miniconda3/bin/activate x\n{STEP}",
    "conda by its script, in quotes": f'. "$HOME/miniforge/bin/activate"\n{STEP}',
    "the old activation of conda": f"source activate x\n{STEP}",
    "core dumps": f"module load pytorch\n{STEP}",
}
"""Correct scripts for two nodes about which check has no advice, not even as a hint."""


@pytest.mark.parametrize("case", NO_ADVICE)
def test_correct_script_has_no_hint(cli: Cli, write: Write, case: str) -> None:
    assert found(cli, write("job.sh", JOB + NO_ADVICE[case]), "--all") == []


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        ("source $SCRATCH/venv/bin/activate", [(3, "hint")]),
        ('source "$SCRATCH/venv/bin/activate"', [(3, "hint")]),
        ("source /tmp/venv/bin/activate", []),
        ("conda activate x", []),
    ],
)
def test_unpacked_environment_on_two_nodes(cli: Cli, write: Write, command: str, rows: list[tuple[int, str]]) -> None:
    assert of_rule(cli, write, f"{JOB}{command}\n{STEP}", "venv-unpacked") == rows


@pytest.mark.parametrize(
    ("path", "is_missing"),
    [
        ("logs/%j.out", True),
        ("<your dir>/logs/%j.out", False),
        ("logs/{NAME}/%j.out", False),
        ("[PROJECT]/%j.out", False),
        ("my_project/logs/%j.out", False),
        ("your-project/%j.out", False),
        ("mylogs/%j.out", True),
        ("path/to/logs/%j.out", False),
    ],
)
def test_output_directory_with_a_placeholder_is_one_problem(
    cli: Cli, write: Write, path: str, is_missing: bool
) -> None:
    rows = of_rule(cli, write, f"#!/bin/bash\n#SBATCH --output={path}\nhostname\n", "output-folder")

    assert rows == ([(2, "hint")] if is_missing else [])


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("export OMP_NUM_THREADS=$((SLURM_CPUS_PER_NODE / 4))", "use SLURM_CPUS_ON_NODE"),
        ("srun torchrun --nnodes=$SLURM_NUM_NODES t.py", "use SLURM_NNODES"),
        ('srun bash -c "python t.py --rank \\$SLURM_RANK"', "use SLURM_PROCID"),
        ("srun bash -c 'export LOCAL_RANK=${SLURM_LOCAL_ID}; python t.py'", "use SLURM_LOCALID"),
        ("cat <<E >x.py\nimport os\nrank = int(os.environ['SLURM_NODE_RANK'])\nE", "use SLURM_NODEID"),
        ("hosts=$(scontrol show hostnames $SLURM_NODE_LIST)", "use SLURM_JOB_NODELIST"),
        ("cd $SLURM_SUBMITDIR", "use SLURM_SUBMIT_DIR"),
        ("export OMP_NUM_THREADS=${SLURM_CPUS_PER_NODE:-8}", None),
        ("SLURM_NUM_NODES=2\nsrun torchrun --nnodes=$SLURM_NUM_NODES t.py", None),
        ('if [ -n "$SLURM_LOCAL_RANK" ]; then echo x; fi', None),
        ("echo nodes: $SLURM_NODE_LIST", None),
        ("cat >conf <<E\nSLURM_CPUS_PER_NODE=2\nE", None),
        ("# SLURM_CPUS_PER_NODE is not set", None),
        ("echo $SLURM_JOB_CPUS_PER_NODE $SLURM_STEP_NUM_TASKS", None),
        ("n=$SLURM_STEP_NUM_TASKS c=$SLURM_JOB_CPUS_PER_NODE t=$SLURM_TASKS_PER_NODE d=$SLURM_TMPDIR", None),
        ("n=$SLURM_JOB_NUM_NODES g=$SLURM_GPUS_PER_NODE p=$SLURM_NPROCS a=$SLURM_ARRAY_TASK_ID", None),
    ],
)
def test_variable_that_slurm_does_not_set(cli: Cli, write: Write, line: str, fix: str | None) -> None:
    rows = json.loads(cli("check", "--json", write("job.sh", f"{JOB}{line}\n")).stdout)

    assert [row["fix"] for row in rows if row["rule"] == "unknown-slurm-variable"] == ([fix] if fix else [])


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("srun torchrun --rdzv-id=\\$SLURM_JOB_ID t.py", True),
        ("srun torchrun --nnodes=2 \\\n  --rdzv-endpoint=\\${MASTER_ADDR}:29500 t.py", True),
        ('srun --output="x" python t.py --name "a b" --rank \\$SLURM_PROCID', True),
        ("python t.py --id \\$SLURM_JOB_ID", True),
        ('srun bash -c "torchrun --rdzv-id=\\$SLURM_JOB_ID t.py"', False),
        ("srun bash -c torchrun\\ --rdzv-id=\\$SLURM_JOB_ID\\ t.py", False),
        ('bash -c "torchrun --rdzv-id=\\$SLURM_JOB_ID t.py"', False),
        ("ssh n1 python t.py --id \\$SLURM_JOB_ID", False),
        ("sbatch <<E\n#!/bin/bash\n#SBATCH -N1\nsrun python t.py \\$SLURM_JOB_ID\nE", False),
        ('srun python t.py "--id=\\$SLURM_JOB_ID"', False),
        ("srun python t.py --price 5\\$", False),
    ],
)
def test_backslash_before_dollar_outside_quotes(cli: Cli, write: Write, line: str, is_found: bool) -> None:
    text = f"{JOB}{line}\n"

    rows = of_rule(cli, write, text, "escaped-dollar")

    assert [severity for _, severity in rows] == (["hint"] if is_found else [])


WORK = {
    "srun pip install -e .": "warning",
    "srun --exclusive -c 8 python -m pip install --user x": "warning",
    "srun --label /opt/conda/bin/pip3 -q install x": "warning",
    "srun git clone https://h/x.git": "warning",
    "srun huggingface-cli download org/model --local-dir m": "warning",
    "srun wget -q https://h/data.tar": "warning",
    "srun uv sync": "warning",
    "srun apptainer exec x.sif pip install x": "warning",
    'srun --container-image="x.sqsh" pip install x': "warning",
    "mpirun -np 8 pip install x": "warning",
    "srun bash -c 'pip install -r r.txt && python t.py'": "warning",
    'srun bash -c "cd /x; git clone https://h/x.git; python t.py"': "warning",
    "srun bash -lc 'python3 -m pip install x; python t.py'": "warning",
    "srun apptainer exec x.sif bash -c 'pip install x; python t.py'": "warning",
    "srun --ntasks-per-node=1 pip install x": "hint",
    "srun python download_model.py": "hint",
    "srun -n1 python download_model.py": None,
    "pip install -r r.txt": None,
    "git clone https://h/x.git": None,
    "bash -c 'pip install x'": None,
    "apptainer exec x.sif bash -c 'pip install x'": None,
    "srun -N1 -n1 pip install x": None,
    "srun --ntasks=1 pip install x": None,
    "srun -n 1 bash -c 'pip install x'": None,
    "srun bash -c 'if [ $SLURM_LOCALID -eq 0 ]; then pip install x; fi; python t.py'": None,
    "srun bash -c '[[ $SLURM_PROCID == 0 ]] && pip install x; python t.py'": None,
    "srun bash -c 'case $SLURM_PROCID in 0) pip install x ;; esac; python t.py'": None,
    "srun bash -c 'git clone https://h/x.git /tmp/$SLURM_PROCID'": None,
    "srun bash -c 'flock /tmp/lock pip install x'": None,
    "srun --ntasks-per-node=1 --container-name=x pip install x": None,
    "srun --ntasks-per-node=1 pip install --target /tmp/x x": None,
    "srun echo pip install x": None,
    "srun python t.py --text 'pip install x'": None,
    "srun curl -s http://$HEAD:8000/health": None,
    "srun git -C /x status": None,
    "srun pip list": None,
}
"""Commands in a job of two nodes with four tasks each, and the severity of the finding."""


@pytest.mark.parametrize("command", WORK)
def test_work_that_every_task_does_at_once(cli: Cli, write: Write, command: str) -> None:
    severity = WORK[command]

    assert of_rule(cli, write, f"{JOB}{command}\n", "work-for-one-process") == ([(3, severity)] if severity else [])


@pytest.mark.parametrize(("nodes", "severities"), [(1, []), (2, ["hint"])])
def test_work_of_one_task_on_each_node(cli: Cli, write: Write, nodes: int, severities: list[str]) -> None:
    text = f"#!/bin/bash\n#SBATCH --nodes={nodes} --ntasks-per-node=1\nsrun git clone https://h/x.git\n"

    assert [severity for _, severity in of_rule(cli, write, text, "work-for-one-process")] == severities


LIMITS = {
    # the options and the system: the line, the detail without its source, and the fix
    ("--nodes=1 --time=24:00:00", "clariden"): (
        "--time=24:00:00: a job in the partition normal of clariden can run at most 12:00:00",
        "use --time=12:00:00, or --partition=low",
    ),
    ("-N 8 -p debug --time=00:10:00", "clariden"): (
        "--nodes=8: a job in the partition debug of clariden can have at most 4 nodes",
        "use --nodes=4, or --partition=normal or low",
    ),
    ("--ntasks=8 --nodes=2 -p debug -t 1:00:00", "clariden"): (
        "--time=1:00:00: a job in the partition debug of clariden on 2 nodes can run at most 00:45:00",
        "use --time=00:45:00, or --partition=normal or low",
    ),
    ("--nodes=1 --time=01:00:00", "perlmutter"): (
        "--time=01:00:00: a job in the QOS debug of perlmutter can run at most 00:30:00",
        "use --time=00:30:00, or --qos=regular or premium or preempt or interactive",
    ),
    ("--nodes=9 --gpus-per-node=4 --time=1:00:00", "olivia"): (
        "--gpus-per-node=4: a job in the partition accel of olivia can have at most 32 GPUs",
        "use fewer GPUs",
    ),
    ("--nodes=1 --gpus=8 --partition=standard", "lumi"): (
        "--gpus=8: the partition standard of lumi has no GPUs",
        "use --partition=standard-g or small-g or dev-g or bench",
    ),
}


@pytest.mark.parametrize(("options", "system"), LIMITS)
def test_limit_of_a_partition_or_qos(cli: Cli, write: Write, options: str, system: str) -> None:
    file = write("job.sh", f"#!/bin/bash\n#SBATCH {options} --account=a1\nhostname\n")
    rows = json.loads(cli("check", "--json", "--system", system, "--select", "limit-exceeded", file).stdout)

    assert [(row["severity"], row["detail"].partition(" [")[0], row["fix"]) for row in rows] == [
        ("error", *LIMITS[options, system])
    ]


@pytest.mark.parametrize(
    ("options", "system", "severities"),
    [
        ("--nodes=1 --time=12:00:00", "clariden", []),
        ("--nodes=8 --time=24:00:00 --partition=low", "clariden", []),
        ("--nodes=8 --time=24:00:00 --partition=mine", "clariden", []),
        ("--nodes=1 --time=24:00:00", None, []),
        ("--nodes=1 --time=<hh:mm:ss>", "clariden", []),
        ("--nodes=1 --time=$TIME", "clariden", []),
        ("--nodes=1", "clariden", []),
        ("--time=06:00:00 --partition=batch", "frontier", ["hint"]),
        ("--nodes=200 --time=06:00:00 --partition=batch", "frontier", []),
        ("--nodes=1 --gpus-per-node=4 --partition=small", "olivia", ["error"]),
        ("--nodes=1 --partition=small", "olivia", []),
    ],
)
def test_job_within_the_limits_or_with_unknown_limits(
    cli: Cli, write: Write, options: str, system: str | None, severities: list[str]
) -> None:
    text = f"#!/bin/bash\n#SBATCH {options}\nhostname\n"

    rows = of_rule(cli, write, text, "limit-exceeded", *(("--system", system) if system else ()))

    assert [severity for _, severity in rows] == severities


@pytest.mark.parametrize(
    ("options", "command", "fix"),
    [
        ("--uenv=pytorch/v2.6.0:v1 --view=defualt", "srun python t.py", "did you mean 'default'?"),
        ("--uenv=pytorch/v2.9.1:v2 --view=default,module", "srun python t.py", "did you mean 'modules'?"),
        ("--uenv=pytorch/v2.6.0:v1", "srun --uenv=pytorch/v2.6.0:v1 --view=dflt python t.py", "did you mean"),
        ("--uenv=pytorch/v2.6.0:v1 --view=x", "srun python t.py", "use default or modules or spack"),
        ("--uenv=pytorch/v2.6.0:v1 --view=default", "srun python t.py", None),
        ("--uenv=pytorch/v2.6.0:v1 --view=spack,modules", "srun python t.py", None),
        ("--uenv=pytorch/v2.6.0:v1,./my.squashfs --view=default,my:venv", "srun python t.py", None),
        ("--uenv=prgenv-gnu/24.11:v1 --view=anything", "srun make", None),
        ("--uenv=./mine.squashfs --view=mine", "srun python t.py", None),
    ],
)
def test_view_of_a_known_image(cli: Cli, write: Write, options: str, command: str, fix: str | None) -> None:
    rows = json.loads(cli("check", "--json", write("job.sh", f"#!/bin/bash\n#SBATCH {options}\n{command}\n")).stdout)

    fixes = [row["fix"] for row in rows if row["rule"] == "unknown-view"]
    assert len(fixes) == bool(fix)
    assert all(fix and text.startswith(fix) for text in fixes)


@pytest.mark.parametrize(
    ("options", "command", "severity"),
    [
        ("--uenv=pytorch/v2.6.0:v1", "srun python t.py", "warning"),
        ("--uenv=pytorch/v2.9.1:v2@daint", "srun python t.py", "warning"),
        ("--nodes=2", "srun --uenv=pytorch/v2.8.0:v1 python t.py", "warning"),
        ("--uenv=pytorch/v2.6.0:v1", "source venv/bin/activate\nsrun python t.py", "hint"),
        ("--uenv=pytorch/v2.13.0:v1", "srun python t.py", None),
        ("--uenv=./mine.squashfs", "srun python t.py", "hint"),
        ("--uenv=pytorch/v2.6.0:v1 --view=default", "srun python t.py", None),
        ("--uenv=pytorch/v2.6.0:v1", "srun --view=default python t.py", None),
        ("--uenv=pytorch/v2.6.0:v1", "source /user-environment/env/default/activate.sh\nsrun python t.py", None),
        ("--uenv=prgenv-gnu/24.11:v1", "module use /user-environment/modules\nsrun make", None),
    ],
)
def test_uenv_without_a_view(cli: Cli, write: Write, options: str, command: str, severity: str | None) -> None:
    rows = of_rule(cli, write, f"#!/bin/bash\n#SBATCH {options}\n{command}\n", "uenv-without-view")

    assert [found for _, found in rows] == ([severity] if severity else [])


EVAL = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n"
OF_RANK = "import os\nshard = int(os.environ['SLURM_PROCID'])\n"
SAME = {
    "srun python eval.py": "8 processes of eval.py on 2 nodes",
    "srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=4 --master-addr=$M eval.py": "8 processes",
    "torchrun --standalone --nproc-per-node=4 eval.py": "4 processes of eval.py",
    "srun -N1 -n2 bash -c 'hostname; python eval.py'": "2 processes of eval.py",
    "python eval.py": "",
    "srun -n1 python eval.py": "",
    "srun python rank.py": "",
    "srun python helped.py": "",
    "srun python absent.py": "",
    "srun bash -c 'python eval.py --shard $SLURM_PROCID'": "",
    "srun bash -c 'export SHARD=$SLURM_PROCID; python eval.py'": "",
}
"""Commands of a job with two nodes and four tasks on each, and the detail of the finding."""


@pytest.mark.parametrize("command", SAME)
def test_program_that_reads_no_rank_in_several_processes(cli: Cli, write: Write, command: str) -> None:
    for name, text in (("eval", EVAL), ("rank", OF_RANK), ("helped", "import shard\n"), ("shard", OF_RANK)):
        write(f"jobs/{name}.py", text)
    file = write("jobs/job.sh", f"{JOB}{command}\n")

    rows = json.loads(cli("check", "--json", "--all", "--select", "same-work", file).stdout)

    assert [row["severity"] for row in rows] == (["hint"] if SAME[command] else [])
    assert all(row["detail"].startswith(SAME[command]) for row in rows)
