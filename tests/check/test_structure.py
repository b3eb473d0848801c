"""Test the problems that check finds in the structure of a script: continued lines, branches, steps and launchers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli, Write

FIELD = Path(__file__).parent / "field"
EXPECTED: dict[str, dict[str, int]] = {
    # file: the line of each problem, by rule
    "09-comment-behind-backslash.sh": {"broken-continuation": 12},
    "10-never-set.sh": {"variable-never-set": 9},
    "11-background-without-wait.sh": {"ends-at-once": 13},
    "s09-blank-line.sbatch": {"broken-continuation": 13},
    "s13-second-node-idle.sbatch": {"tasks-without-step": 13},
    "s19-branch-not-sequence.sbatch": {},
    "s20-ray-worker-or-true.sbatch": {},
    "s21-srun-mpirun.sbatch": {"launcher-in-launcher": 11},
    "s22-srun-deepspeed.sbatch": {"launcher-in-launcher": 11},
    "s24-backslash-blank.sbatch": {"broken-continuation": 12},
    "s26-console-script.sbatch": {"tasks-without-step": 11},
    "s27-uv-run-script.sbatch": {"tasks-without-step": 12},
    "s28-srun-torchrun-alone.sbatch": {"launcher-in-launcher": 10},
}
HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=4 --cpus-per-task=32 --time=1:0:0\n"
ONE = HEAD.replace("=2", "=1")


def found(cli: Cli, file: Path, *options: str) -> list[tuple[str, int]]:
    """Return the rule and the line of each problem."""
    return [(row["rule"], row["line"]) for row in json.loads(cli("check", "--json", *options, file).stdout)]


@pytest.mark.parametrize("name", EXPECTED)
def test_field_case_has_exactly_its_problems(cli: Cli, name: str) -> None:
    assert found(cli, FIELD / name) == list(EXPECTED[name].items())


BROKEN = {
    "a space after the backslash": ("srun \\\n  -n 8 \\ \n  python t.py\n", 4),
    "a tab after the backslash": ("srun \\\n  -n 8 \\\t\n  python t.py\n", 4),
    "a space, and a program that is not indented": ("srun -n 8 \\ \npython t.py\n", 3),
    "a space, before an empty line": ("srun -n 8 python t.py \\ \n\nwait\n", 3),
    "a comment after the backslash": ("srun \\\n  -n 8 \\  # eight\n  python t.py\n", 4),
    "a comment line": ("srun -n 8 \\\n  # --mem=0 \\\n  python t.py\n", 3),
    "several comment lines": ("srun -n 8 \\\n#  --mem=0 \\\n\n  # --qos=x \\\n  python t.py --lr 1\n", 3),
    "an empty line before an option": ("srun -n 8 python t.py \\\n\n--lr 1\n", 3),
    "an empty line before the program": ("srun -n 8 \\\n\n  python t.py\n", 3),
    "no backslash": ("srun -n 8 python t.py\n  --lr 1\n", 4),
    "no backslash, and an empty line": ("srun -n 8 python t.py \\\n  --lr 1\n\n  --wd 2\n", 6),
    "no backslash, after a comment": ("srun -n 8 python t.py # train\n  --lr 1\n", 4),
    "in a loop": ("for i in 1 2; do\n  srun -n 8 python t.py \\\n\n    --lr 1\ndone\n", 4),
    "at the end of a loop": ("for i in 1 2; do\n  srun -n 8 python t.py \\ \ndone\n", 4),
    "in the shell of a step": ("srun -n 8 bash -c '\n  python t.py \\ \n    --lr 1\n'\n", 4),
    "with CRLF": ("srun -n 8 \\ \r\n  python t.py\r\n", 3),
    "an option as a command": ("fi\n  --lr 1\n", 4),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_continuation_is_the_only_problem_of_its_command(cli: Cli, write: Write, case: str) -> None:
    text, line = BROKEN[case]

    rows = [row for row in found(cli, write("job.sh", HEAD + text)) if row[0] != "dos-line-ends"]

    assert rows == [("broken-continuation", line)]


CONTINUED = {
    "a backslash before an empty line": "srun -n 8 python t.py \\\n  --lr 1 \\\n\nwait\n",
    "a backslash before a comment": "srun -n 8 python t.py \\\n  --lr 1 \\\n# then wait\nwait\n",
    "a backslash before the end of a loop": "for i in 1 2; do\n  srun -n 8 python t.py \\\n\ndone\n",
    "a space as an argument": "date | cut -d \\ \\\n  -f 1\ndate | tr -d \\ \nIFS=\\ \nls a\\ b\\ \n",
    "patterns of case": "case $1 in\n  -h|--help) usage ;;\n  # more\n  --lr) lr=$2 ;;\n\n  -v)\n    v=1\nesac\n",
    "a heredoc": "cat <<E > x\n--lr 1 \\ \n\n  --wd\nE\nsrun -n 8 python t.py\n",
    "an array": "A=(\n  --lr 1 # \\ \n\n  --wd 2\n)\nsrun -n 8 python t.py ${A[@]}\n",
    "a text in quotes": "A='a \\ \n\n  --wd 2'\nsrun -n 8 python t.py $A\n",
    "a condition over several lines": "[[ -f a &&\n  -f b ]] ||\n  exit 1\nsrun -n 8 python t.py\n",
    "a list of tests": "if [ -f a ] || \\\n   [ -f b ]; then\n  srun -n 8 python t.py\nfi\n",
    "a comment with a backslash": "# srun \\\n\n  srun -n 8 python t.py\n",
    "a redirection": "srun -n 8 python t.py \\\n  > log\n\n",
    "a pipe": "set -o pipefail\nsrun -n 8 python t.py |\n  # copy\n  tee log\n",
}


@pytest.mark.parametrize("case", CONTINUED)
def test_lines_that_continue_or_end_a_command_are_no_problem(cli: Cli, write: Write, case: str) -> None:
    assert found(cli, write("job.sh", HEAD + CONTINUED[case])) == []


@pytest.mark.parametrize("name", ["ntasks-per-node", "tasks-per-node"])
def test_option_of_srun_has_the_same_effect_under_both_of_its_names(cli: Cli, write: Write, name: str) -> None:
    script = write("job.sh", f"{HEAD}srun --{name}=4 torchrun --nproc_per_node=4 t.py\n")

    assert found(cli, script) == [("launcher-in-launcher", 3)]


def test_fix_removes_the_spaces_after_backslashes(cli: Cli, write: Write) -> None:
    file = write("job.sh", HEAD + "srun \\ \n  -n 8 \\\t \n  python t.py \\ # all\n  --lr 1\n")

    cli("check", "--fix", file)

    assert file.read_text() == HEAD + "srun \\\n  -n 8 \\\n  python t.py \\ # all\n  --lr 1\n"


TRAIN, STEP = "srun -n 8 python t.py", "python t.py"
LOST = {
    # the line of each command that sets another exit code
    "after the branches": ("if a; then\n  {0}\nelse\n  sleep 9\nfi\necho done\n", [8]),
    "in the branch of the training": ("if a; then\n  {0}\n  echo done\nelse\n  sleep 9\nfi\n", [5]),
    "in both branches": ("if a; then\n  {0}\n  echo 1\nelse\n  {0}\n  echo 2\nfi\n", [5, 8]),
    "in an inner branch": (
        "if a; then\n  if b; then\n    {0}\n    echo\n  else\n    true\n  fi\nelse\n  sleep 9\nfi\n",
        [6],
    ),
    "after the inner branches": ("if a; then\n  if b; then\n    {0}\n  fi\n  echo\nelse\n  sleep 9\nfi\n", [7]),
    "after the training in a condition": ("if {0}; then\n  echo\nelse\n  echo failed\nfi\n", [6]),
    "in an arm of case": ("case $a in\n0)\n  {0}\n  echo ;;\n*) sleep 9 ;;\nesac\n", [6]),
    "after a branch without an alternative": ("if a; then\n  {0}\nfi\nif b; then\n  sleep 9\nelse\n  echo\nfi\n", [9]),
}
KEPT = {
    "the other branch": "if a; then\n  {0}\nelse\n  sleep 9\n  echo done\nfi\n",
    "the first branch": "if a; then\n  sleep 9\nelse\n  {0}\nfi\n",
    "three branches": "if a; then\n  echo\nelif b; then\n  {0}\nelse\n  sleep 9 || true\nfi\n",
    "an inner branch": "if a; then\n  if b; then\n    {0}\n  else\n    sleep 9\n  fi\nelse\n  sleep 9\nfi\n",
    "arms of case": "case $a in\n0) {0} ;;\n1) sleep 9 ;;\n*) echo other ;;\nesac\n",
    "training in both branches": "if a; then\n  {0}\nelse\n  {0} --x\nfi\n",
    "an exit in the other branch": "if a; then\n  {0}\nelse\n  exit 0\nfi\n",
}


@pytest.mark.parametrize("case", LOST)
def test_command_that_runs_after_training_hides_its_exit_code(cli: Cli, write: Write, case: str) -> None:
    text, lines = LOST[case]

    for script in (text.format(TRAIN), f"srun -n 8 bash -c '{text.format(STEP)}'\n"):
        rows = found(cli, write("job.sh", HEAD + script), "--all", "--select", "failure-hidden")
        assert rows == [("failure-hidden", line) for line in lines]


@pytest.mark.parametrize("case", KEPT)
def test_branch_that_does_not_run_after_training_hides_no_exit_code(cli: Cli, write: Write, case: str) -> None:
    for script in (KEPT[case].format(TRAIN), f"srun -n 8 bash -c '{KEPT[case].format(STEP)}'\n"):
        assert found(cli, write("job.sh", HEAD + script), "--all", "--select", "failure-hidden") == []


UNWATCHED = {
    "ssh in a loop": "for n in $nodes; do\n  ssh $n 'torchrun --nnodes=2 t.py' &\ndone\n",
    "srun in a loop": "for n in $nodes; do\n  srun -w $n -N 1 python t.py &\n  rank=$((rank + 1))\ndone\n",
    "an own script in a loop": "for n in $nodes; do\n  srun -w $n -N 1 ./run.sh &\n  sleep 2\ndone\necho done\n",
    "a branch": "if a; then\n  srun python t.py &\nelse\n  wait\nfi\n",
    "an exit": "srun python t.py &\nexit 0\n",
    "a function": "run() {\n  srun python $1\n}\nrun a.py &\nrun b.py &\nls\n",
    "pdsh": "pdsh -w $nodes python t.py &\n",
    "a pipe": "set -o pipefail\nsrun python t.py | tee log &\n",
    "a subshell": "for n in 1 2; do\n  ( cd $n; srun -N 1 python t.py ) &\ndone\n",
    "a group": "for n in 1 2; do\n  { srun -N 1 python t.py; } > log &\ndone\n",
    "a loop": "for n in 1 2; do srun -N 1 python t.py; done &\n",
    "a function with variables": "R='srun -N 1'\nrun() {\n  $R \"$@\"\n}\nrun python t.py &\n",
}
WATCHED = {
    "wait after a loop": "for n in $nodes; do\n  ssh $n 'torchrun --nnodes=2 t.py' &\ndone\nwait $!\n",
    "wait in a loop": "for n in $nodes; do\n  srun -N 1 python t.py & p=$!\n  wait $p\ndone\n",
    "wait for each": "for n in $nodes; do\n  srun -N 1 a & p+=($!)\ndone\nfor i in ${p[@]}; do wait $i; done\n",
    "a loop that asks": "ssh $n python t.py &\nwhile pgrep -u $USER ssh; do\n  sleep 9\ndone\n",
    "a long sleep": "ssh $n python t.py &\nsleep 3500\n",
    "a program in the foreground": "ssh $n nvidia-smi -l > log &\nsrun -n 8 python t.py\n",
    "a tunnel": "ssh -N -L 8080:$h:80 login &\n",
    "a group": "{\n  srun python t.py\n} &\nwait $!\n",
    "a job that is waited for by its ID": "set -o pipefail\nsrun python t.py | tee log & p=$!\nwait $p\n",
    "a wait in the function": "run() {\n  srun -N 1 python $1 &\n  wait $!\n}\nrun a.py\n",
    "a wait after the function": "run() {\n  srun -N 1 python $1 &\n  p=$!\n}\nrun a.py\nwait $p\n",
    "a trap": "srun python t.py & p=$!\ntrap 'wait $p' EXIT\n",
}


@pytest.mark.parametrize("case", UNWATCHED)
def test_script_that_ends_before_its_background_programs_is_an_error(cli: Cli, write: Write, case: str) -> None:
    text = HEAD + UNWATCHED[case]
    last = max(i for i, line in enumerate(text.splitlines(), 1) if line.endswith("&"))

    assert [row for row in found(cli, write("job.sh", text)) if row[0] == "ends-at-once"] == [("ends-at-once", last)]


@pytest.mark.parametrize("case", WATCHED)
def test_script_that_waits_for_its_background_programs_is_no_problem(cli: Cli, write: Write, case: str) -> None:
    assert found(cli, write("job.sh", HEAD + WATCHED[case])) == []


def test_function_that_leaves_its_step_in_the_background_ends_at_its_last_call(cli: Cli, write: Write) -> None:
    text = HEAD + 'run() { srun -N 1 python "$@" & }\nrun a.py\nrun b.py\n'

    assert found(cli, write("job.sh", text), "--select", "ends-at-once") == [("ends-at-once", 5)]


FOUR = HEAD.replace("--nodes=2", "--nodes=2 --ntasks-per-node=4")
PER_NODE = HEAD.replace("--nodes=2", "--nodes=2 --ntasks-per-node=1")
RENDEZVOUS = "--rdzv-backend=c10d --rdzv-endpoint=$(hostname -s):1234"
RANK = "sh -uc 'eval \"$UENVTOOL_RANK\"'"
NESTED = [
    "srun mpirun -np 8 python t.py", "srun mpiexec -n 8 ./app", "srun --mpi=pmix mpiexec python t.py",
    "srun apptainer exec x.sif mpirun -np 4 python t.py", "srun bash -c 'cd x; mpirun -np 8 python t.py'",
    "srun deepspeed t.py", "srun deepspeed --num_gpus=4 t.py", "srun accelerate launch t.py",
    "srun accelerate launch --config_file c.yaml t.py", "srun torchrun t.py", "srun torchrun --standalone t.py",
    "srun torchrun --nnodes=2 --nproc-per-node=4 t.py", "srun python -m torch.distributed.run t.py",
    "srun torchrun --nnodes=8 --nproc-per-node=4 t.py", "srun composer t.py", "srun tune run --nproc-per-node 4 full",
    "srun colossalai run --nproc_per_node 4 t.py", "srun fabric run --devices=4 t.py",
    f"srun {RANK} torchrun --nproc-per-node=4 t.py", "srun sh -c 'exec \"$0\" \"$@\"' torchrun --nproc-per-node=4 t.py",
    "srun bash -c 'ulimit -c 0; \"$@\"' rank accelerate launch t.py",
    "srun bash -c 'numactl -N 0 \"${@}\"' rank torchrun t.py",
    "srun apptainer exec x.sif sh -c 'exec \"$@\"' _ deepspeed t.py", "srun mpiexec.hydra -n 8 ./app",
    "srun horovodrun -np 8 python t.py", "srun axolotl train c.yaml", "FORCE_TORCHRUN=1 srun llamafactory-cli train c",
    "NPROC_PER_NODE=4 srun swift sft --model m",
]  # fmt: skip
ONE_PER_TASK = [
    "srun python t.py", "srun --ntasks-per-node=1 deepspeed --hostfile=h --no_ssh --node_rank=$SLURM_NODEID t.py",
    "srun torchrun --nnodes=8 --nproc-per-node=1 " + RENDEZVOUS + " t.py",
    "srun accelerate launch --num_machines=8 --num_processes=8 --machine_rank $SLURM_PROCID t.py",
    "srun torchrun $ARGS t.py", "srun torchrun --nnodes=$N --nproc-per-node=$P " + RENDEZVOUS + " t.py",
    "srun bash -c 'CUDA_VISIBLE_DEVICES=$SLURM_LOCALID torchrun --standalone t.py'",
    "srun llamafactory-cli train c.yaml", "srun -N 1 -n 1 mpirun -np 8 python t.py", "mpirun -np 8 python t.py",
    "srun python t.py --launcher torchrun", "srun ./run.sh mpirun", "srun flux start python t.py",
    f"srun {RANK} python t.py", "srun sh -c 'exec \"$0\" \"$@\"' python t.py", "srun bash -c 'echo \"$1\"' torchrun x",
    "FORCE_TORCHRUN=1 NPROC_PER_NODE=1 srun llamafactory-cli train c", "srun xtuner train c --launcher slurm",
]  # fmt: skip


@pytest.mark.parametrize("command", NESTED)
def test_launcher_in_each_of_several_tasks_is_an_error(cli: Cli, write: Write, command: str) -> None:
    rows = found(cli, write("job.sh", FOUR + command + "\n"), "--select", "launcher-in-launcher")

    assert rows == [("launcher-in-launcher", 3)]


IN_VARIABLES = {
    "in a variable": "R='srun --mpi=pmix {0} t.py'\n$R\n",
    "evaluated": "R='srun {0}'\neval $R t.py\n",
    "evaluated in quotes": "R='{0}'\neval \"srun $R t.py\"\n",
    "in an array": 'R=(srun {0} t.py)\necho "${{R[@]}}"\n"${{R[@]}}"\n',
    "in an array that grows": 'R=(srun -u)\nR+=({0})\nif a; then R+=(--x); fi\nR+=(t.py)\n"${{R[@]}}"\n',
    "in a variable that grows": 'R=srun\nR+=" -u"\nR="$R {0} t.py"\n$R\n',
    "with a default": "R=${{R:-srun}}\n$R {0} t.py\n",
    "with a path": "R=$(which srun)\n$R {0} t.py\n",
    "in a script in a variable": "R='cd x\n{0} t.py'\nsrun bash -c \"$R\"\n",
    "in the shell of a step in a variable": "R='srun -u'\n$R bash -c 'cd x; {0} t.py'\n",
    "as arguments of a function": 'run() {{\n  srun -u "$@"\n}}\nrun {0} t.py\n',
    "as arguments of a function with a keyword": 'function run {{ echo $1; srun "${{@}}"; }}\nrun {0} t.py\n',
}


@pytest.mark.parametrize("case", IN_VARIABLES)
def test_command_in_variables_and_functions_is_read(cli: Cli, write: Write, case: str) -> None:
    for launcher, count in (("torchrun --standalone --nproc-per-node=4", 1), ("python", 0)):
        text = FOUR + IN_VARIABLES[case].format(launcher)
        rows = found(cli, write("job.sh", text), "--select", "launcher-in-launcher,tasks-without-step,node-alone")
        assert [rule for rule, _ in rows] == ["launcher-in-launcher"] * count


UNKNOWN = {
    "several values": "if a; then\n  R='srun torchrun --standalone'\nelse\n  R=python\nfi\n$R t.py\n",
    "a function that shifts its arguments": 'run() {\n  n=$1; shift\n  srun "$@"\n}\nrun torchrun python t.py\n',
    "an output of a program": 'eval "$(torchrun --help)"\n',
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_command_with_an_unknown_value_is_no_problem(cli: Cli, write: Write, case: str) -> None:
    assert found(cli, write("job.sh", FOUR + UNKNOWN[case]), "--select", "launcher-in-launcher") == []


def test_work_for_one_process_in_a_variable_or_a_function_is_found(cli: Cli, write: Write) -> None:
    head = FOUR + 'run() { srun "$@"; }\nS="pip install -e ."\n'
    for command in ("run pip install x\n", 'srun bash -c "$S; python t.py"\n'):
        rows = found(cli, write("job.sh", head + command), "--select", "work-for-one-process")
        assert [rule for rule, _ in rows] == ["work-for-one-process"]


def test_variable_in_the_value_of_a_command_is_expanded_by_the_batch_script(cli: Cli, write: Write) -> None:
    text = FOUR + 'A=x\nC="numactl -N $A python"\nsrun bash -c "cd x; $C t.py"\n'

    assert found(cli, write("job.sh", text), "--all", "--select", "address-not-exported,rank-before-step") == []


@pytest.mark.parametrize("command", ONE_PER_TASK)
def test_launcher_that_joins_the_others_is_no_problem(cli: Cli, write: Write, command: str) -> None:
    assert found(cli, write("job.sh", FOUR + command + "\n"), "--select", "launcher-in-launcher") == []


@pytest.mark.parametrize(
    ("command", "problems"),
    [
        (f"srun {RANK} torchrun --nproc-per-node=4 t.py", []),  # PET_ variables contain the address
        (f"srun {RANK} torchrun --nproc-per-node=8 t.py", ["more-ranks-than-gpus"]),
        ('srun sh -c \'exec "$0" "$@"\' torchrun --nproc-per-node=4 t.py', ["node-alone"]),
        ("srun bash -c '\"$@\"' rank torchrun --nproc-per-node=4 t.py", ["node-alone"]),
        ("srun bash -c 'x=1; exec \"$@\"' rank vllm serve m &\nwait $!", []),
        ("srun bash -c 'exec python t.py \"$@\"' rank --lr 1", []),
    ],
)
def test_command_in_the_arguments_of_a_shell_is_read(cli: Cli, write: Write, command: str, problems: list[str]) -> None:
    assert [rule for rule, _ in found(cli, write("job.sh", f"{PER_NODE}{command}\n"))] == problems


def test_training_in_the_arguments_of_a_shell_can_lose_its_exit_code(cli: Cli, write: Write) -> None:
    script = write("job.sh", f"{PER_NODE}srun -n 8 {RANK} python t.py\necho done\n")

    assert [rule for rule, _ in found(cli, script, "--all", "--select", "failure-hidden")] == ["failure-hidden"]


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("mpirun -np 8 python t.py", 1), ("mpiexec.hydra -n 8 ./app", 1), ("time orterun --np 8 python t.py", 1),
        ("RUN='/opt/mpi/bin/mpirun -c 8'\n$RUN python t.py", 1), ("mpirun -np $((SLURM_NNODES * 8)) python t.py", 1),
        ("mpirun -np 4 python t.py", 0), ("mpirun python t.py -np 16", 0), ("mpirun --oversubscribe -np 8 ./app", 0),
        ("mpirun --host a:8 -np 8 ./app", 0), ("srun -n 1 mpirun -np 8 ./app", 0),
    ],
)  # fmt: skip
def test_ranks_of_mpirun_are_compared_with_the_tasks(cli: Cli, write: Write, command: str, count: int) -> None:
    rows = found(cli, write("job.sh", f"{FOUR.replace('=2', '=1')}{command}\n"), "--select", "slots-missing")

    assert len(rows) == count


def test_job_of_a_whole_node_without_tasks_has_a_slot_for_each_core(cli: Cli, write: Write) -> None:
    text = ONE.replace("--nodes=1", "--nodes=1 --exclusive")

    assert found(cli, write("job.sh", f"{text}mpirun -np 8 ./app\n"), "--select", "slots-missing") == []


FIRST_NODE_ONLY = [
    "vllm serve m --tensor-parallel-size 4", "apptainer exec --nv x.sif vllm serve m -tp 4", "litgpt pretrain m",
    "apptainer exec x.sif litgpt pretrain m", "uv run train.py", "uv run --with x train.py --lr 1", "./train.py --lr 1",
    "uv run litgpt pretrain m", "python -m trainer.main --x", "conda run -n x python t.py", "ls\n~/bin/train --x",
    "env A=1 ./build/gpt2 -e 1", "train() {\n  litgpt pretrain m\n}\ntrain", "if a; then\n  llama-bench -m x\nfi",
    "timeout 3500 axolotl preprocess c.yaml", "singularity run x.sif --epochs 1",
]  # fmt: skip
OTHER_NODES = [
    "srun litgpt pretrain m", "mpirun -np 8 litgpt pretrain m", "apptainer exec x.sif bash -c 'srun litgpt x'",
    "ssh $n litgpt pretrain m", "R='srun -n 8'\n$R litgpt pretrain m", "ray start --head\nlitgpt pretrain m",
    "vllm serve m --distributed-executor-backend ray", "sbatch next.sh", "git clone x\npip install -e .\nmodule load x",
    "bash run.sh", "./run.sh a", "uv sync\nuv pip install x", "apptainer pull x.sif docker://x", "wget x; tar xf x",
    "parallel -S $h litgpt ::: 1 2", "main() {\n  srun litgpt $1\n}\nmain", "conda activate x\nhf download m",
    "source common.sh\nstart_all t.py", "litgpt --help", "dask-scheduler &\nlitgpt pretrain m",
]  # fmt: skip


@pytest.mark.parametrize("text", FIRST_NODE_ONLY)
def test_program_without_step_on_several_nodes_is_a_warning(cli: Cli, write: Write, text: str) -> None:
    file, one = write("job.sh", f"{HEAD}{text}\n"), write("one.sh", f"{ONE}{text}\n")

    assert [rule for rule, _ in found(cli, file)] == ["tasks-without-step"]
    assert found(cli, one) == []


@pytest.mark.parametrize("text", OTHER_NODES)
def test_script_that_reaches_other_nodes_or_only_helps_is_no_problem(cli: Cli, write: Write, text: str) -> None:
    assert found(cli, write("job.sh", f"{HEAD}{text}\n"), "--select", "tasks-without-step") == []


@pytest.mark.parametrize(
    "command",
    [
        "lightning run model t.py --tensor-parallel 4",
        "apptainer exec x.sif torchrun --nproc-per-node=4 t.py",
        "uv run accelerate launch t.py",
    ],
)
def test_launcher_without_step_on_several_nodes_is_an_error(cli: Cli, write: Write, command: str) -> None:
    assert [rule for rule, _ in found(cli, write("job.sh", f"{HEAD}{command}\n"))] == ["node-alone"]


OUTSIDE = {
    "the number of the task": ("0-3", "${L[$SLURM_ARRAY_TASK_ID]}", "#SBATCH --array=0-2"),
    "without a dollar sign": ("1-3", "${L[SLURM_ARRAY_TASK_ID]}", "#SBATCH --array=0-2"),
    "minus one": ("1-4%2", "${L[$((SLURM_ARRAY_TASK_ID - 1))]}", "#SBATCH --array=1-3"),
    "a variable": ("0,3", "${L[$I]}", "#SBATCH --array=0-2"),
    "a calculated variable": ("1-4", "${L[J]}", "#SBATCH --array=1-3"),
    "an old calculation": ("1-4", "${L[$K]}", "#SBATCH --array=1-3"),
    "one dimension of a grid": ("0-7", "${L[$((SLURM_ARRAY_TASK_ID / 2))]}", None),
    "one task": ("3", "${L[$SLURM_ARRAY_TASK_ID]}", "#SBATCH --array=0-2"),
    "plus one": ("0-2", "${L[$SLURM_ARRAY_TASK_ID + 1]}", "use a range with one task for each element"),
    "a long range": ("0-99999", "${L[$((SLURM_ARRAY_TASK_ID / ${#L[@]}))]}", None),
}
INSIDE = {
    "the last element": ("0-2", "${L[$SLURM_ARRAY_TASK_ID]}"),
    "an offset": ("1-3", "${L[SLURM_ARRAY_TASK_ID-1]}"),
    "a remainder": ("0-8", "${L[$((SLURM_ARRAY_TASK_ID % ${#L[@]}))]}"),
    "a grid": ("0-5", "${L[$((SLURM_ARRAY_TASK_ID / 2))]} ${M[$((SLURM_ARRAY_TASK_ID % 2))]}"),
    "an unknown index": ("0-8", "${L[$X]}"),
    "an array of unknown length": ("0-8", "${N[$SLURM_ARRAY_TASK_ID]}"),
    "all elements": ("0-1", "${L[$SLURM_ARRAY_TASK_ID]} ${L[@]}"),
    "an element that is set by its index": ("0-3", "${O[$SLURM_ARRAY_TASK_ID]}"),
    "one task": ("1", "${L[$SLURM_ARRAY_TASK_ID]}"),
    "some tasks": ("0,2", "${L[$SLURM_ARRAY_TASK_ID]}"),
    "a division by zero": ("0-3", "${L[$((1 / SLURM_ARRAY_TASK_ID))]}"),
}
LISTS = (
    "L=(\n  'a b' # first\n  # old\n  \"$HOME/b\"\n)\nL+=(c)\nM=(x y)\nN=($(ls))\nO=(x)\nO[3]=y\n"
    "I=$SLURM_ARRAY_TASK_ID\nJ=$((SLURM_ARRAY_TASK_ID - 1))\nK=$(expr $SLURM_ARRAY_TASK_ID - 1)\n"
)


def of_array(tasks: str, words: str) -> str:
    return ONE.replace("--nodes", f"--array={tasks} --nodes") + f"{LISTS}python t.py {words}\n"


@pytest.mark.parametrize("case", OUTSIDE)
def test_task_without_an_element_of_the_list_is_a_warning(cli: Cli, write: Write, case: str) -> None:
    tasks, words, fix = OUTSIDE[case]
    script = write("job.sh", of_array(tasks, words))
    (row,) = json.loads(cli("check", "--json", "--select", "index-outside-list", script).stdout)

    assert (row["line"], row["severity"]) == (2, "warning")
    assert fix in (None, row["fix"])


@pytest.mark.parametrize("case", INSIDE)
def test_list_that_fits_the_tasks_is_no_problem(cli: Cli, write: Write, case: str) -> None:
    assert found(cli, write("job.sh", of_array(*INSIDE[case])), "--all", "--select", "index-outside-list") == []


def test_elements_that_no_task_uses_are_a_hint(cli: Cli, write: Write) -> None:
    script = write("job.sh", of_array("0-1", "${L[$SLURM_ARRAY_TASK_ID]}"))
    (row,) = json.loads(cli("check", "--all", "--json", "--select", "index-outside-list", script).stdout)

    assert (row["severity"], row["detail"]) == ("hint", "no task uses 1 element of L")


OWN_GPU = {
    "srun --gpus-per-task=1 python t.py": "--gpus-per-task=1",
    "srun --gpu-bind=single:1 python t.py": "--gpu-bind=single:1",
    "srun --gpu-bind=per_task:1 python t.py": "--gpu-bind=per_task:1",
    "srun --gpu-bind=verbose,map_gpu:0,1,2,3 python t.py": "--gpu-bind=map_gpu:0,1,2,3",
    "srun --gpu-bind=mask_gpu:0x1,0x2,0x4,0x8 python t.py": "--gpu-bind=mask_gpu:0x1,0x2,0x4,0x8",
    "srun --tres-bind=gres/nic:closest+gres/gpu:verbose,map:0,1,2,3 python t.py": "--tres-bind=gres/gpu:map:0,1,2,3",
    "srun --gpus-per-task=1 --tres-bind=gres/gpu:none python t.py": "",
    "srun --tres-per-task=cpu:8,gres/gpu:1 python t.py": "--tres-per-task",
    "srun --ntasks-per-gpu=1 python t.py": "--ntasks-per-gpu",
    "srun bash -c 'export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID; python t.py'": "CUDA_VISIBLE_DEVICES",
    "srun --gpus-per-task=1 --gpu-bind=none python t.py": "",
    "srun --gpu-bind=closest python t.py": "",
    "srun --gpu-bind=mask_gpu:0xf,0xf,0xf,0xf python t.py": "",
    "srun --gpu-bind=per_task:2 python t.py": "",
    "srun -n 1 --gpu-bind=single:1 python t.py": "",
    "srun python t.py": "",
}


@pytest.mark.parametrize("command", OWN_GPU)
def test_local_rank_of_a_task_that_sees_one_gpu_is_an_error(cli: Cli, write: Write, command: str) -> None:
    write(
        "t.py", "import os, torch\nlocal_rank = int(os.environ['SLURM_LOCALID'])\ntorch.cuda.set_device(local_rank)\n"
    )
    script = write("job.sh", f"{FOUR}{command}\n")
    rows = json.loads(cli("check", "--json", "--select", "local-rank-of-one-gpu", script).stdout)

    details = [f"with {OWN_GPU[command]}, t.py has set_device(local_rank"] if OWN_GPU[command] else []
    assert [row["detail"] for row in rows] == details


def test_tasks_per_gpu_are_as_many_as_the_gpus(cli: Cli, write: Write) -> None:
    text = ONE.replace("--nodes=1", "--nodes=1 --ntasks-per-gpu=1")

    assert found(cli, write("job.sh", f"{text}srun python t.py\n"), "--all", "--select", "idle-gpus") == []


def test_only_python_without_step_on_one_node_can_miss_its_tasks(cli: Cli, write: Write) -> None:
    for command, count in (("python t.py", 1), ("torchrun --standalone --nproc-per-node=4 t.py", 0)):
        script = write("job.sh", f"{FOUR.replace('--nodes=2', '--nodes=1')}{command}\n")
        rows = json.loads(cli("check", "--all", "--json", "--select", "tasks-without-step", script).stdout)
        assert [row["severity"] for row in rows] == ["hint"] * count


WRAPPED = {
    "-N 2 --ntasks-per-node=4 --wrap='srun torchrun --standalone t.py'": ["launcher-in-launcher"],
    '--nodes 2 --wrap "cd x; python t.py"': ["tasks-without-step"],
    '-N 1 --wrap="python t.py &"': ["ends-at-once"],
    '-N 1 --mem=$M --wrap="python t.py --seed $SEED"': [],
    '--gpus=1 --mem=64 --wrap="python t.py"': ["memory-without-unit"],
    '-N 2 $OPTIONS --wrap="$COMMAND"': [],
    "-N 2 --wrap": [],
}


@pytest.mark.parametrize("options", WRAPPED)
def test_command_of_sbatch_wrap_is_checked_with_the_options_of_sbatch(cli: Cli, write: Write, options: str) -> None:
    script = write("submit.sh", f"#!/bin/bash\nfor SEED in 1 2; do\n  sbatch {options}\ndone\n")

    assert [rule for rule, _ in found(cli, script)] == WRAPPED[options]


JOINED = "--nnodes=$NNODES --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT t.py\n"
SET = "NNODES=2\nMASTER_ADDR=$(hostname)\nMASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))\n"
UNSET = {
    "all": (f"srun torchrun {JOINED}", "NNODES, MASTER_ADDR, MASTER_PORT"),
    "one": (f"{SET}srun torchrun {JOINED.replace('NNODES', 'NUM')}", "NUM"),
    "a misspelt name": (f"{SET}srun torchrun {JOINED.replace('PORT', 'PRT')}", "MASTER_PRT"),
    "in braces": (f"{SET}srun torchrun {JOINED.replace('$MASTER_ADDR', '${head_ip}')}", "head_ip"),
    "in a shell of the step": (
        f"{SET}srun bash -c 'torchrun --node-rank=$RANK_OF_NODE {JOINED.strip()}'\n",
        "RANK_OF_NODE",
    ),
    "in an array": (
        f"{SET}A=(--nnodes $N --rdzv-endpoint $MASTER_ADDR:$MASTER_PORT)\nsrun torchrun ${{A[@]}} t.py\n",
        "N",
    ),
    "of accelerate": ("srun accelerate launch --num_machines 2 --machine_rank $R --main_process_ip $H t.py\n", "R, H"),
    "of a program": ("srun -n 8 python t.py --master $MASTER_ADDR\n", "MASTER_ADDR"),
    "after an environment": (f"source venv/bin/activate\nsrun torchrun {JOINED}", "NNODES, MASTER_ADDR, MASTER_PORT"),
}
SET_SOMEWHERE = {
    "set": f"{SET}srun torchrun {JOINED}",
    "read": f"read -r NNODES MASTER_ADDR MASTER_PORT < x\nsrun torchrun {JOINED}",
    "a loop": f"{SET}for R in 0 1; do srun torchrun --node-rank=$R {JOINED.strip()}; done\n",
    "a default": "srun torchrun --nnodes=${NNODES:-2} --node-rank=${R-0} --master-addr=${M:=a} t.py\n",
    "a test": f': ${{NNODES:?}} ${{MASTER_ADDR:?}}\n[ -n "$MASTER_PORT" ] || exit 1\nsrun torchrun {JOINED}',
    "an option of sbatch": f"#SBATCH --export=ALL,NNODES=2,MASTER_ADDR=a,MASTER_PORT=1\nsrun torchrun {JOINED}",
    "a comment": f"# NNODES=2 MASTER_ADDR=a MASTER_PORT=1 sbatch job.sh\nsrun torchrun {JOINED}",
    "our variables": f"srun {RANK} torchrun {JOINED}",
    "the shell of the step": f"srun bash -c 'NNODES=2 MASTER_ADDR=a MASTER_PORT=1; torchrun {JOINED.strip()}'\n",
    "a file": f"source env.sh\nsrun torchrun {JOINED}",
    "a variable of the user": f"{SET}srun torchrun {JOINED.strip()} --data $DATA --out $SCRATCH\n",
    "one of Slurm": "srun torchrun --nnodes=$SLURM_NNODES --node-rank=$SLURM_NODEID --master-addr=$HOSTNAME t.py\n",
}


@pytest.mark.parametrize("case", UNSET)
def test_variable_of_a_launcher_that_nothing_sets_is_a_warning(cli: Cli, write: Write, case: str) -> None:
    text, names = UNSET[case]

    answer = cli("check", "--select", "variable-never-set", write("job.sh", PER_NODE + text))

    assert (
        f" warning[variable-never-set] nothing in the script sets a variable in the launcher's options: {names};"
        in (answer.stdout)
    )


@pytest.mark.parametrize("case", SET_SOMEWHERE)
def test_variable_that_can_be_set_is_no_problem(cli: Cli, write: Write, case: str) -> None:
    file = write("job.sh", PER_NODE + SET_SOMEWHERE[case])

    assert found(cli, file, "--select", "variable-never-set") == []


def test_sourced_file_that_can_be_read_decides_what_is_set(cli: Cli, write: Write) -> None:
    file = write("job.sh", f"{PER_NODE}source env.sh\nsrun torchrun {JOINED}")
    write("env.sh", "export NNODES=2\n")

    (row,) = json.loads(cli("check", "--json", "--select", "variable-never-set", file).stdout)

    assert (row["severity"], row["detail"]) == ("warning", "MASTER_ADDR, MASTER_PORT")
