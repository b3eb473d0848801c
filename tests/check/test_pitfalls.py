"""Test faults that cost a job, next to forms of the same kind that are correct."""

from __future__ import annotations

import pytest

from tests.check.test_forms import of_rule
from tests.conftest import Cli, Write

HEAD = "#!/bin/bash\n#SBATCH --time=1:0:0\n"
TWO_GPUS = HEAD + "#SBATCH --gres=gpu:2 --ntasks=1\n"
RENDEZVOUS = "--nnodes=$N --rdzv_backend=c10d --rdzv_endpoint=$HOSTNAME:29500 t.py'\n"
PITFALLS = {
    # the rule, and the case: the text, and the lines of the problems
    ("option-repeated", "long and short"): (HEAD + "#SBATCH -N 2\n#SBATCH --nodes=4\n", [4]),
    ("option-repeated", "another name"): (HEAD + "#SBATCH --tasks-per-node=2\n#SBATCH --ntasks-per-node=4\n", [4]),
    ("option-repeated", "three times"): (HEAD + "#SBATCH --mem=1G\n#SBATCH --mem=2G\n#SBATCH --mem=2G\n", [4]),
    ("option-repeated", "the same value"): (HEAD + "#SBATCH -N 2\n#SBATCH --nodes=2\n", []),
    ("option-repeated", "parts of a job"): (HEAD + "#SBATCH -N 2\n#SBATCH hetjob\n#SBATCH -N 4\n", []),
    ("tasks-without-step", "a variable for ssh"): (HEAD + "#SBATCH -N 2\nexport CONV_RSH=ssh\npython t.py\n", [5]),
    ("tasks-without-step", "ssh"): (HEAD + "#SBATCH -N 2\nssh $node python t.py &\npython t.py\n", []),
    ("output-and-error-swapped", "of the job"): (HEAD + "#SBATCH -o %j.err\n#SBATCH -e %j.out\n", [3]),
    ("output-and-error-swapped", "of a step"): (HEAD + "srun -N 1 \\\n -e a.log -o a.err \\\n  hostname\n", [4]),
    ("output-and-error-swapped", "in order"): (HEAD + "#SBATCH -o a.out -e a.err\nsrun -o b.log -e b.err a\n", []),
    ("array-of-one", "one index"): (HEAD + "#SBATCH --array=1-1%4\n", [3]),
    ("array-of-one", "one task again"): (HEAD + "#SBATCH --array=7\n", []),
    ("array-of-one", "several"): (HEAD + "#SBATCH --array=0-10\n", []),
    ("array-in-quotes", "a variable"): (HEAD + 'list=("$hosts")\nhead=${list[0]}\n', [3]),
    ("array-in-quotes", "a command"): (HEAD + 'h=("$(scontrol show hostnames "$SLURM_JOB_NODELIST")")\n', [3]),
    ("array-in-quotes", "without quotes"): (HEAD + 'list=($hosts)\nA=("$model")\nB=("${hosts[@]}")\n', []),
    ("address-from-digits", "sed"): (HEAD + 'IP_ADDR="10.0.7.$(hostname | sed s/[a-z]*//)"\n', [3]),
    ("address-from-digits", "an expansion"): (HEAD + "MASTER_ADDR=10.1.1.${HOSTNAME##*[a-z]}\n", [3]),
    ("address-from-digits", "in base 10"): (HEAD + "MASTER_ADDR=10.1.1.$((10#${HOSTNAME##*[a-z]}))\n", []),
    ("address-from-digits", "a host"): (HEAD + "MASTER_ADDR=$(scontrol show hostnames | sed 1q)\n", []),
    ("conda-init-in-job", "conda"): (HEAD + "conda init\nconda activate e\n", [3]),
    ("conda-init-in-job", "a hook"): (HEAD + 'eval "$(conda shell.bash hook)"\nconda install init\n', []),
    ("lightning-without-tasks", "devices"): (
        TWO_GPUS + "python t.py --trainer.devices 2 --trainer.strategy=fsdp\n",
        [4],
    ),
    ("lightning-without-tasks", "strategy first"): (TWO_GPUS + "srun python t.py --strategy ddp --devices=2\n", [4]),
    ("lightning-without-tasks", "one device"): (TWO_GPUS + "python t.py --strategy ddp --devices 1\n", []),
    ("lightning-without-tasks", "spawn"): (TWO_GPUS + "python t.py --gpus 2 --strategy ddp_spawn\n", []),
    ("lightning-without-tasks", "tasks"): (
        HEAD + "#SBATCH --gres=gpu:2 --ntasks-per-node=2\nsrun python t.py --gpus 2 --strategy ddp\n",
        [],
    ),
    ("lightning-without-tasks", "no tasks in the environment"): (
        HEAD + "#SBATCH --gres=gpu:2\npython t.py --gpus 2 --strategy ddp\n",
        [],
    ),
    ("unknown-slurm-variable", "no --gpus"): (HEAD + "#SBATCH --gpus-per-node=4\nN=$SLURM_GPUS\n", [4]),
    ("unknown-slurm-variable", "--gpus"): (HEAD + "#SBATCH --gpus=4\nN=$SLURM_GPUS\n", []),
    ("unknown-slurm-variable", "a default"): (
        HEAD + "#SBATCH --gres=gpu:4\nN=${SLURM_GPUS:-4}$SLURM_GPUS_ON_NODE\n",
        [],
    ),
    ("unknown-slurm-variable", "always the default"): (HEAD + "export OMP_NUM_THREADS=${SLURM_NCPUS:-4}\n", [3]),
    ("unknown-slurm-variable", "a default of a variable"): (HEAD + "A=${SLURM_CPUS_PER_TASK:-4}\n", []),
    ("unknown-slurm-variable", "an underscore"): (HEAD + "D=/tmp/$SLURM_JOB_ID_$USER\nE=a_$SLURM_PROCID_b\n", [3, 4]),
    ("unknown-slurm-variable", "braces"): (HEAD + "D=/tmp/${SLURM_JOB_ID}_$USER/$SLURM_JOB_ID/$SLURM_PROCID.x\n", []),
    ("option-with-variable", "two variables"): (HEAD + "#SBATCH -N $N\n#SBATCH -A ${ACCOUNT}\n", [3, 4]),
    ("node-alone", "a number in a variable"): (HEAD + "#SBATCH -N ${N}\nsrun bash -c 'torchrun " + RENDEZVOUS, [4]),
    ("node-alone", "one node"): (HEAD + "#SBATCH -N 1\nsrun bash -c 'torchrun " + RENDEZVOUS, []),
    ("launcher-in-launcher", "a number in a variable"): (
        HEAD + "#SBATCH -N 1 --ntasks-per-node=$G\nsrun torchrun --nproc_per_node=$G t.py\n",
        [4],
    ),
    ("launcher-in-launcher", "another variable"): (
        HEAD + "#SBATCH -N 1 --ntasks-per-node=$T\nsrun torchrun --nproc_per_node=$G t.py\n",
        [],
    ),
    ("idle-gpus", "a launcher around torchrun"): (TWO_GPUS + "oumi distributed torchrun -m oumi train -c t.yaml\n", []),
    ("idle-gpus", "torchrun"): (TWO_GPUS + "torchrun -m own train -c t.yaml\n", [4]),
    ("workers-without-cores", "a heredoc"): (TWO_GPUS + "python - <<E\nLoader(d, num_workers=16)\nE\n", [5]),
    ("workers-without-cores", "no workers"): (TWO_GPUS + "python - <<E\nLoader(d, num_workers=0)\nE\n", []),
    ("workers-without-cores", "cores"): (TWO_GPUS + "#SBATCH -c 17\npython - <<E\nnum_workers = 16\nE\n", []),
    ("failure-hidden", "a tool in a pipe"): (HEAD + "python count.py | tee count.log\n", []),
    ("failure-hidden", "a training in a pipe"): (TWO_GPUS + "python train.py | tee train.log\n", [4]),
    ("broken-continuation", "a value without a backslash"): (
        HEAD + "srun -N 1 \\\n  --bind /a \\\n  --bind /b\n  /images/a.sif \\\n  --lr 1\n",
        [5],
    ),
    ("broken-continuation", "another command"): (
        HEAD + "  srun -N 1 \\\n  --bind /a\n  /images/a.sif \\\n  --lr 1\n",
        [],
    ),
    ("broken-continuation", "a test with operators"): (
        HEAD + 'if [[ -z "$A" || ( $B =~ ^(x|y)$ && $C < $D ) ||\n  -z $E ]]; then\n  exit 1\nfi\n[[ a ]] && srun a\n',
        [],
    ),
}


@pytest.mark.parametrize(("rule", "case"), PITFALLS)
def test_pitfall_is_found_only_in_its_form(cli: Cli, write: Write, rule: str, case: str) -> None:
    text, lines = PITFALLS[rule, case]

    assert [line for line, _ in of_rule(cli, write, text, rule)] == lines


@pytest.mark.parametrize(("files", "severity"), [([], "hint"), (["t.py"], "warning")])
def test_output_directory_of_a_script_without_its_files_is_a_hint(
    cli: Cli, write: Write, files: list[str], severity: str
) -> None:
    for file in files:
        write(file, "import torch\n")

    text = HEAD + "#SBATCH -o logs/%j.out\npython t.py\n"

    assert of_rule(cli, write, text, "output-folder") == [(3, severity)]
