"""Test the problems that `uenvtool check` finds in batch scripts and EDFs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.check.test_pitfalls import PITFALLS
from tests.conftest import Cli, Write
from tests.support.seeds import written
from uenvtool.check.lint import runtime_of
from uenvtool.check.problems import read_source
from uenvtool.knowledge.rule import load_rules

SEEDS = {
    (0, "--uenv"): {"placeholder", "set-x-cat", "tuning-value"},
    (0, "image ="): {"placeholder", "edf-iopstor", "edf-syntax"},
    (0, "--environment"): {"placeholder", "set-x-cat", "triton-home-in-container"},
    (1, "image ="): {"tuning-guard"},
    (1, "--environment"): {"placeholder", "cores-not-asked"},
    (1, "--uenv"): {"placeholder", "cores-not-asked", "tuning-missing"},
    (3, "submit-dist"): {"runai-small-shm"},
    (3, "tee rank_"): {"roce-gid-from-grep", "failure-hidden"},
    (4, "apptainer"): {"placeholder"},
}
"""The problems in each seed script, corrected by later pages of its site or observed in a real Slurm."""


def found(cli: Cli, *files: Path, options: tuple[str, ...] = ()) -> list[dict[str, object]]:
    answer = cli("check", "--json", *options, *files)
    data: list[dict[str, object]] = json.loads(answer.stdout)
    assert answer.code == int(any(each["severity"] != "hint" for each in data)), answer.stderr
    return data


def put(write: Write, text: str) -> Path:
    """Write a text to env.toml if it is an EDF, or else to job.sh."""
    return write("env.toml" if text.startswith(("image", "mounts")) else "job.sh", text)


def rules(data: list[dict[str, object]]) -> set[object]:
    return {finding["rule"] for finding in data}


@pytest.mark.parametrize(("number", "containing"), SEEDS)
def test_each_seed_script_has_exactly_its_known_problems(cli: Cli, place: Path, number: int, containing: str) -> None:
    assert rules(found(cli, written(place, number, containing))) == SEEDS[number, containing]


@pytest.mark.parametrize(
    ("lines", "runtime"),
    [
        ("#SBATCH --environment=x\nls", "ce"),
        ("#SBATCH --uenv=a/1\nsrun --environment=x true", "ce"),
        ("#SBATCH --view=default\napptainer exec a.sif true", "uenv"),
        ("singularity exec a.sif true", "apptainer"),
        ("runai submit x\napptainer exec a.sif true", "apptainer"),
        ("runai submit x", "runai"),
        ("echo $PET_NNODES", "runai"),
        ("echo runai  # PET_NNODES", None),
    ],
)
def test_runtime_of_a_script_with_signs_of_several(lines: str, runtime: str | None) -> None:
    assert runtime_of(read_source(f"#!/bin/bash\n{lines}\n", "job.sh")) == runtime


HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --cpus-per-task=8\n#SBATCH --time=1:0:0\nulimit -c 0\n"
FOUR = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gpus-per-node=4\n#SBATCH --time=1:0:0\n"
TWO = FOUR.replace("per-node=4", "per-node=1", 1) + "#SBATCH --exclusive\nulimit -c 0\n"
MEETS = "torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT t.py"
"""A launcher that joins the launchers of the other nodes."""
ONE = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gpus=1\n#SBATCH --time=1:0:0\n"
TOKEN = "hf_" + "aB3" * 11 + "x"
EDF = 'image = "nvcr.io#nvidia/pytorch:25.06-py3"\n[annotations]\ncom.hooks.aws_ofi_nccl.enabled = "true"\n'
EXTENDED = 'image = "/images/ngc-pytorch:26.02-py3-alps6.sqsh"\n'
PROBLEMS = {
    "script-directory": ONE + 'cd "$(dirname "$0")"\npython train.py\n',
    "script-directory, of bash": ONE + 'source "$(realpath ${BASH_SOURCE[0]})/../setup.sh"\npython train.py\n',
    "script-directory, by expansion": ONE + "cd ${0%/*}\npython train.py\n",
    "memory-without-unit": ONE + "#SBATCH --mem=80\npython train.py\n",
    "memory-without-unit, of a job without GPUs": "#!/bin/bash\n#SBATCH --mem=400 --time=9\npython t.py\n",
    "mamba-without-hook, after a Python module": ONE + "module load python\nmamba activate e\npython t.py\n",
    "mamba-without-hook": ONE + ". /opt/conda/etc/profile.d/conda.sh\nmamba activate e\npython train.py\n",
    "workers-without-cores": ONE + "python train.py --num_workers 8\n",
    "array-number-without-array": "#SBATCH -o %x-%A_%a.out\nulimit -c 0\n",
    "output-discarded": "#SBATCH -o /dev/null\nulimit -c 0\n",
    "token-placeholder": ONE + "export HF_TOKEN=hf_...\npython train.py\n",
    "registry-as-uenv": FOUR + "#SBATCH --uenv=nvcr.io/nvidia/pytorch:25.06-py3\nsrun -c 8 python train.py\n",
    "variable-never-set": TWO + f"srun {MEETS}\n",
    "rank-outside-step": FOUR + "export RANK=0\nsrun -c 8 python train.py\n",
    "rank-before-step": HEAD + 'srun -c 8 bash -c "export RANK=$SLURM_PROCID; python train.py"\n',
    "rank-from-wrong-variable": HEAD + "srun -c 8 bash -c 'export RANK=$SLURM_LOCALID; python train.py'\n",
    "master-addr-in-step": HEAD + 'srun -c 8 bash -c "export MASTER_ADDR=\\$(hostname); python train.py"\n',
    "port-fixed": ONE + "srun torchrun --rdzv_endpoint=$head:29500 train.py\n",
    "server-per-task": FOUR + "srun vllm serve M\n",
    "server-per-task, in a shell": FOUR + "srun -c 8 bash -c 'cd x && python -m sglang.launch_server --tp 4'\n",
    "server-per-task, in a container": FOUR + "srun apptainer exec x.sif tensorboard --logdir runs &\nwait $!\n",
    "launcher-in-launcher, of Ray": FOUR + "srun ray start --head\n",
    "work-for-one-process": FOUR + "srun pip install -r requirements.txt\n",
    "launcher-in-launcher": FOUR + "srun torchrun --nproc-per-node=4 train.py\n",
    "node-alone": TWO + "srun torchrun --nproc-per-node=4 train.py\n",
    "node-rank-for-all": TWO + "srun torchrun --node_rank=$SLURM_NODEID --master_addr=$MASTER_ADDR train.py\n",
    "ends-at-once": TWO + "srun python train.py &\necho started\n",
    "one-gpu-for-all": FOUR + "export CUDA_VISIBLE_DEVICES=0\nsrun python train.py\n",
    "more-ranks-than-gpus": ONE + "torchrun --standalone --nproc-per-node=4 train.py\n",
    "more-ranks-than-gpus, a million ranks": ONE + "torchrun --standalone --nproc-per-node=1000000 train.py\n",
    "dollar-in-single-quotes": HEAD + "srun bash -c 'python train.py --id \\$SLURM_JOB_ID'\n",
    "folder-of-rank-outside-step": FOUR + "export TRITON_CACHE_DIR=/tmp/$SLURM_PROCID\nsrun python train.py\n",
    "placeholder": HEAD.replace("2", "<NODES>"),
    "option-behind-command": HEAD + "#SBATCH --partition=x\n",
    "output-folder": "#SBATCH -o logs/%j.out\nulimit -c 0\n",
    "cores-not-asked": FOUR + "#SBATCH --uenv=x\nsrun python train.py\n",
    "time-limit-missing": "#SBATCH -N 1\npython x.py\n",
    "shebang": "# a job\n#!/bin/bash\n#SBATCH --nodes=1\nls\n",
    "option-as-comment": "#!/bin/bash\n #SBATCH --nodes=1\n#SBATCH -t 9\nls\n",
    "option-with-variable": ONE + "#SBATCH --output=$HOME/%j.out\n",
    "option-without-value": "#SBATCH --nodes=\n",
    "dos-line-ends": ONE + "python t.py # a\r\n",
    "unknown-slurm-variable, of a file": ONE + 'mkdir -p "$(dirname "$SLURM_STDOUT")"\npython train.py\n',
    "unknown-slurm-variable": ONE + "export OMP_NUM_THREADS=$((SLURM_CPUS_PER_NODE / 4))\n",
    "escaped-dollar": ONE + "torchrun --standalone t.py --id \\$SLURM_JOB_ID\n",
    "broken-continuation": ONE + "srun \\ \n  python t.py\n",
    "broken-continuation, an option as a command": ONE + "ls; --lr 1\n",
    "typographic": "#SBATCH \u2013nodes=2\n",
    "no-break-space": "#SBATCH\u00a0--nodes=2\n",
    "failure-hidden": HEAD + "srun -c 8 python train.py\necho done\n",
    "kill-by-pattern": "#!/bin/sh\npkill -f nvidia-smi\n",
    "assignment-with-blanks": ONE + "DATA = /data\n",
    "set-x-cat": "set -x cat $0\n",
    "venv-unpacked": HEAD + "source $SCRATCH/venv/bin/activate\nsrun -c 8 python train.py\n",
    "launch-blocking": ONE + "export CUDA_LAUNCH_BLOCKING=1\n",
    "token-in-script": ONE + f"export HF_TOKEN={TOKEN}\n",
    "pythonpath-by-python": "export PYTHONPATH=\"$(python -c 'import site'):$PYTHONPATH\"\n",
    "environment-as-option": "#SBATCH --environment=./env.toml\n",
    "triton-home-in-container": "export TRITON_HOME=/dev/shm/\nsrun --environment=e.toml python train.py\n",
    "host-setting-in-container": "export FI_PROVIDER=cxi\nsrun --environment=e.toml python train.py\n",
    "user-site-of-uenv": (
        "#SBATCH --uenv=pytorch/v2.9.1:v2\nexport PYTHONNOUSERSITE=1\nsrun python train.py\n"
    ),
    "user-site-in-container": "#SBATCH --nodes=2\nsrun apptainer exec --nv x.sif python train.py\n",
    "activation-on-host": "source /opt/venv/bin/activate\nsrun --environment=e.toml python train.py\n",
    "runai-no-roce": "runai submit-dist pytorch --large-shm --workers 1 -- torchrun train.py\n",
    "runai-small-shm": "runai submit --name x -- python train.py\n",
    "roce-gid-from-grep": "export NCCL_IB_GID_INDEX=$(grep 'RoCE v2' /sys/x)\n",
    "tuning-value": "#SBATCH --uenv=pytorch/v2.6.0:v1\nexport NCCL_NET_GDR_LEVEL=SYS\n",
    "tuning-unset": "#SBATCH --uenv=pytorch/v2.6.0:v1\nexport NCCL_NET_PLUGIN=ofi\n",
    "unknown-view": "#SBATCH --uenv=pytorch/v2.6.0:v1 --view=defualt\nsrun python t.py\n",
    "uenv-without-view": "#SBATCH --uenv=pytorch/v2.6.0:v1\nsrun python t.py\n",
    "tuning-conflict": "#SBATCH --uenv=x\nexport NCCL_NET='AWS Libfabric'\nexport NCCL_NET_PLUGIN=ofi\n",
    "tuning-missing": "#SBATCH --uenv=pytorch/v2.6.0:v1\nsrun python train.py\n",
    "tuning-need": "#SBATCH --uenv=mine\nexport FI_CXI_RDZV_PROTO=alt_read\n",
    "tuning-guard": "#SBATCH --uenv=mine\nexport NCCL_PROTO=LL128\n",
    "edf-syntax": "image = x\n",
    "edf-unbraced": EDF.replace("nvcr.io#", "$SCRATCH/"),
    "edf-users-mounted": 'mounts = ["/capstor", "/users"]\n' + EDF,
    "edf-iopstor": 'mounts = [\n  "/capstor", # data\n  "/iopstor",\n]\n' + EDF,
    "edf-ssh-nccl": EDF + 'com.hooks.ssh.enabled = "true"\n',
    "megatron-deferred-wgrad": ONE + "ARGS=(\n  --bf16\n  --defer-embedding-wgrad-compute\n)\npython t.py ${ARGS[@]}\n",
    "file-system-for-checkpoints": ONE + "python t.py --save /iopsstor/scratch/cscs/me/out\n",
    "file-system-for-checkpoints, a variable": ONE + "CKPT_DIR=/iopsstor/scratch/cscs/me/out\npython t.py\n",
    "file-system-for-data": ONE + "python t.py --data-path /capstor/scratch/cscs/me/tokens\n",
    "edf-variant": EDF + 'com.hooks.aws_ofi_nccl.variant = "cuda13"\n',
    "edf-no-hook": 'image = "nvcr.io#nvidia/pytorch:25.06-py3"\n',
    "extended-image": EXTENDED,
    "triton-home-in-container, of an EDF": EDF + '[env]\nTRITON_HOME = "/dev/shm/"\n',
    "rank-from-wrong-variable, of WORLD_SIZE": FOUR + "export WORLD_SIZE=$SLURM_NNODES\nsrun -c 8 python train.py\n",
    "rank-from-wrong-variable, the node's": FOUR + "export RANK=$SLURM_NODEID\nsrun -c 8 python t.py\n",
    "rank-from-wrong-variable, the node's in a step": FOUR
    + "srun -c 8 bash -c 'LOCAL_RANK=$SLURM_NODEID; python t.py --local $LOCAL_RANK'\n",
    "rank-from-wrong-variable, of the node": FOUR + "export RANK=${SLURM_LOCALID}\nsrun -c 8 python t.py\n",
    "rank-from-wrong-variable, of the node in a step": FOUR
    + "srun -c 8 bash -c 'RANK=$SLURM_LOCALID; python t.py --rank $RANK'\n",
    "rank-from-wrong-variable, of the job": FOUR + "export LOCAL_RANK=$SLURM_PROCID\nsrun -c 8 python t.py\n",
    "rank-from-wrong-variable, of the job in a step": FOUR
    + "srun -c 8 bash -c 'LOCAL_RANK=$SLURM_PROCID; python t.py --local $LOCAL_RANK'\n",
    "typographic, a quote": ONE + "#SBATCH --comment=\u201ca b\u201d\n",
    "failure-hidden, wait": FOUR + "srun python a.py &\nsrun python b.py &\nwait\n",
    "failure-hidden, tee": "torchrun train.py 2>&1 | tee log\nexit $?\n",
    "node-alone, without srun": FOUR + "torchrun --nnodes=2 --nproc-per-node=4 train.py\n",
    "node-alone, beside a step that is none of its several": FOUR
    + 'if [ -n "$LOG" ]; then srun hostname; fi\nif [ -n "$X" ]; then torchrun train.py; fi\n',
    "node-alone, deepspeed": FOUR + "deepspeed train.py\n",
    "failure-hidden, exit 0": HEAD + "srun -c 8 python train.py\nexit 0\n",
    "failure-hidden, set +x": HEAD + "srun -c 8 python train.py\nset +x\n",
    "failure-hidden, torchrun on GPUs that come with the node": "#!/bin/bash\n#SBATCH -N 1\ntorchrun t.py\necho done\n",
    "failure-hidden, without srun": ONE + "python train.py\necho done\n",
    "failure-hidden, in a step": HEAD + "srun -c 8 bash -c 'nvidia-smi; python t.py; echo done'\n",
    "failure-hidden, kept and shown alone": HEAD
    + 'srun -c 8 python t.py\nstatus=$?\nif [ $status -eq 0 ]; then\n  echo fine\nelse\n  echo "failed: $status"\nfi\n',
    "failure-hidden, of another command": HEAD + "srun -c 8 python t.py\necho done\nexit $?\n",
    "failure-hidden, refused before": HEAD + "[ -d data ] || exit 1\nsrun -c 8 python t.py\necho done\n",
    "failure-hidden, in an if": HEAD + "if srun -c 8 python t.py; then\n  echo fine\nelse\n  echo failed\nfi\n",
    "rank-before-step, of torchrun": HEAD + 'srun -c 8 bash -c "torchrun --node_rank $SLURM_PROCID t.py"\n',
    "placeholder, in braces": "#SBATCH -p { partition }\n",
    "placeholder, of Compute Canada": "#SBATCH -A def-someuser\n",
    "placeholder, of the user": "#SBATCH --chdir=/home/username/project\n",
    "placeholder, in capital letters": "#SBATCH -A ENTER_ACCOUNT_HERE\n",
    "placeholder, of an array": "#SBATCH --array=0-N%9\n",
    "launch-blocking, with a dot": ONE + "export CUDA_LAUNCH_BLOCKING=1.\n",
    "port-fixed, as a default": ONE + ": ${MASTER_PORT:=29500}\ntorchrun t.py\n",
    "port-fixed, with a default": ONE + "export MASTER_PORT=${MASTER_PORT:-29500}\ntorchrun t.py\n",
    "port-fixed, in a variable": ONE + "PORT=29500\ntorchrun --master-port $PORT t.py\n",
    "placeholder, /path/to": ONE + "python /path/to/train.py\n",
    "placeholder, in a list": ONE + "python train.py --data=a:/path/to/data\n",
    "placeholder, project_x": ONE + "#SBATCH --account=project_xxxxxxxxx\n",
    "placeholder, options": ONE + "srun <SLURM OPTIONS> python t.py\n",
    "token-in-script, of another issuer": ONE + f"curl -H 'x: {'glpat' + '-'}{'aB3_' * 5}' https://h\n",
    "token-in-script, wandb login": ONE + "wandb login " + "0123456789abcdef" * 2 + "01234567\n",
    "venv-unpacked, conda on many nodes": HEAD.replace("2", "16") + "conda activate train\nsrun -c 8 python t.py\n",
    "typographic, an option further on": ONE + "#SBATCH --mem=1G \u2014qos=x\n",
    "typographic, a short option": ONE + "#SBATCH \u2013p x\n",
    "typographic, within a name": ONE + "#SBATCH --cpus\u2013per-task=2\n",
    "typographic, of an array": ONE + "#SBATCH --array=0\u20133\n",
    "typographic, in a command": ONE + "srun \u2013n 4 python t.py\n",
    "typographic, a quote in a command": ONE + "python t.py --name \u201ca b\u201d\n",
    "typographic, a quote of a variable": ONE + "DATA=\u201c/data\u201d\n",
    "shebang, behind a byte order mark": "\ufeff" + ONE,
    "shebang, behind an empty line": "\n" + ONE,
    "option-as-comment, all of them": "#!/bin/bash\n# SBATCH --nodes=2\n# SBATCH --time=9\npython t.py\n",
    "option-with-variable, the home": ONE + "#SBATCH -o ~/%j.out\n",
    "option-with-variable, in a text of quotes": "sbatch <<'E'\n#!/bin/bash\n#SBATCH --nodes=$N\nls\nE\n",
    "assignment-with-blanks, and a dollar": ONE + "$DATA = /data\n",
    "assignment-with-blanks, exported": ONE + "export DATA = /data\n",
    "no-break-space, behind a value": ONE + "#SBATCH --mem=1G\u00a0\n",
    "no-break-space, of no width": ONE + "#SBATCH \u200b--mem=1G\n",
    "no-break-space, in a command": ONE + "srun\u00a0python t.py\n",
    "no-break-space, before an option": "#!/bin/bash\n\u00a0#SBATCH --nodes=1\n",
    "dos-line-ends, in a script within one": "sbatch <<E\r\n#!/bin/bash\r\n#SBATCH -N 1\r\nls\r\nE\r\n",
    "option-without-value, and a blank": ONE + "#SBATCH --mem= 64G\n",
    "node-alone, standalone": TWO + "srun torchrun --standalone --nproc-per-node=4 t.py\n",
    "node-alone, of one node": TWO
    + "srun torchrun --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT t.py\n",
    "node-alone, localhost": TWO + "srun python -m torch.distributed.run --nnodes 2 --master_addr localhost t.py\n",
    "node-alone, the leader": FOUR + "export MASTER_ADDR=127.0.0.1\nsrun python t.py\n",
    "node-alone, its own name": TWO + "srun bash -c 'torchrun --rdzv_endpoint $(hostname):29500 t.py'\n",
    "node-alone, a number of its own": TWO + f"srun bash -c '{MEETS.replace('t.py', '--rdzv_id $RANDOM t.py')}'\n",
    "node-alone, accelerate": TWO + "srun accelerate launch --num_processes 4 t.py\n",
    "node-rank-for-all, a number": TWO + "srun accelerate launch --machine_rank 0 --main_process_ip $M t.py\n",
    "one-gpu-for-all, by the task": FOUR + "export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID\nsrun python t.py\n",
    "idle-gpus, torchrun": ONE + "#SBATCH --gpus-per-node=4\nsrun torchrun --nproc_per_node=1 train.py\n",
    "output-folder, made by the job itself": ONE
    + '#SBATCH -o logs/%j.out\ncd "$(dirname "$0")"\nmkdir -p logs\npython t.py\n',
    "output-folder, made by a job that submits the next": ONE
    + "#SBATCH -o logs/%j.out\nmkdir -p logs\npython t.py\nsbatch next.sh\n",
    "option-behind-command, in a heredoc": "sbatch <<EOT\n#!/bin/bash\nls\n#SBATCH --nodes=1\n#SBATCH -n 1\nEOT\n"
    "#SBATCH -n 3\n",
    "port-fixed, of three GPUs": ONE.replace("--gpus=1", "--gpus=3") + "export MASTER_PORT=29500\npython t.py\n",
    "rank-outside-step, declared": FOUR + "declare -x LOCAL_RANK=0\nsrun -c 8 python train.py\n",
    "rank-before-step, an option": HEAD + 'srun -c 8 bash -c "python train.py --rank $SLURM_PROCID"\n',
    "dollar-in-single-quotes, exported": HEAD + "srun bash -c 'export RANK=\\$SLURM_PROCID; python t.py'\n",
    "port-fixed, where a job may have the whole node": ONE.replace("--gpus=1", "--gpus=4")
    + "export MASTER_PORT=29500\npython t.py\n",
    "options-behind-program": ONE + "torchrun --standalone train.py --nproc_per_node=4\n",
    "options-behind-program, that it may have too": ONE + "torchrun --standalone train.py --master-port $PORT\n",
    "options-behind-program, accelerate": ONE + "accelerate launch t.py \\\n --num_processes 4\n",
    "python-behind-launcher": ONE + "torchrun --standalone --nproc_per_node=4 python train.py\n",
    "endpoint-of-each-node": "torchrun --nnodes 2 --rdzv-endpoint=$(hostname):29500 --rdzv-backend=c10d t.py\n",
    "endpoint-of-each-node, a number": "torchrun --nnodes=2 --node_rank=0 --rdzv_endpoint=`hostname -f` t.py\n",
    "endpoint-of-each-node, of a variable": 'torchrun --nnodes=$N --rdzv_endpoint="$HOSTNAME:29500" t.py\n',
    "tasks-without-step": FOUR + "python train.py\n",
    "tasks-without-step, on one node": FOUR.replace("nodes=2", "nodes=1") + "python train.py\n",
    "counts-apart": "#!/bin/bash\n#SBATCH -N 1 --ntasks=3 --ntasks-per-node=2\nsrun python train.py\n",
    "counts-apart, of several nodes": FOUR + "#SBATCH --ntasks=16\nsrun python train.py\n",
    "several-addresses": TWO + "head_ip=$(hostname -I)\nsrun torchrun --rdzv_endpoint $head_ip:$PORT t.py\n",
    "several-addresses, by the name": TWO
    + "ip=$(srun -N1 -n1 -w $(scontrol show hostnames | head -1) hostname --ip-address)\n"
    + f"srun {MEETS}\n",
    "output-overwritten": ONE + "#SBATCH --output=train.out\n",
    "output-of-array": ONE + "#SBATCH --array=0-3 -o %x-%A.out\n",
    "few-cores": ONE + "#SBATCH --gpus-per-node=8 --cpus-per-task=8\nsrun torchrun --nproc-per-node=8 t.py\n",
    "few-cores, none": ONE + "torchrun --standalone t.py\n",
    "conda-without-hook": ONE + "conda activate train\n",
    "conda-without-hook, behind a module": ONE + "module load anaconda3\nconda activate train\n",
    "steps-side-by-side": FOUR + "srun -n1 python a.py &\nsrun -n1 python b.py &\nwait\n",
    "sbatch-in-uenv": "#SBATCH --uenv=x/v2.9:v1 --time=1\nsrun python t.py\nsbatch next.sh\n",
    "more-threads-than-cores": ONE + "#SBATCH -c 8\nexport OMP_NUM_THREADS=4\ntorchrun --nproc_per_node=4 t.py\n",
    "tasks-without-step, in a container": ONE
    + "#SBATCH --ntasks-per-node=4\nsingularity exec x.sif bash -c 'torchrun --standalone t.py'\n",
    "unread-setting, but by the program": ONE + "export NCCL_TIMEOUT=1800\n",
    "more-threads-than-cores, by Slurm": ONE
    + "#SBATCH -c 8\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\ntorchrun --nproc_per_node=4 t.py\n",
    "rdzv-id-fixed": TWO + f"srun {MEETS.replace('t.py', '--rdzv_id=101 t.py')}\n",
    "nccl-preloaded": ONE + "export LD_PRELOAD=/opt/nccl/build/lib/libnccl.so.2\n",
    "nodelist-cut": TWO + "export MASTER_ADDR=${SLURM_NODELIST:0:6}${SLURM_NODELIST:7:3}\n",
    "nodelist-cut, by a program": TWO + "HEAD=$(echo $SLURM_JOB_NODELIST | cut -d, -f1)\n",
    "port-unread": ONE + "export MASTER_PORT=$PORT\ntorchrun --nproc_per_node=1 t.py\n",
    "tasks-without-step, of a launcher": ONE + "#SBATCH --ntasks-per-node=4\ntorchrun --standalone t.py\n",
    "placeholder, in a brace": ONE + "#SBATCH --account={FILL} --comment={FILL}\n",
    "placeholder, your own": ONE + "#SBATCH --account=your_job_name\n",
    "kill-by-pattern, on each node": HEAD + "mpiexec -ppn 1 pkill python\n",
    "unread-setting, no number": ONE + "export NCCL_IB_GID_INDEX=mlx5_0\n",
    "failure-hidden, of a program that is not known": ONE
    + "srun --kill-on-bad-exit ./train.sh\necho done\n",
    "squashfs-around-srun": ONE + "squashfs-mount env.sqfs:/env -- srun python t.py\n",
    "old-name": ONE + "export NCCL_BLOCKING_WAIT=1\n",
    "old-name, of a cache": ONE + "export TRANSFORMERS_CACHE=/scratch/hf\n",
    "old-name, of torchrun": ONE + "python -m torch.distributed.launch --nproc_per_node=1 t.py\n",
    "unread-setting, that is gone": ONE + "export NCCL_TREE_THRESHOLD=0\n",
    "unread-setting": ONE + "export NCCL_DISABLE_IB=1\n",
    "unread-setting, of a value": ONE + "export NCCL_DEBUG=DEBUG\n",
    "unread-setting, an interface": ONE + "export NCCL_IB_HCA=ib0\n",
    "network-off": FOUR + "export NCCL_IB_DISABLE=1\n",
    "network-off, of a node": FOUR.replace("=2", "=1") + "export NCCL_P2P_DISABLE=1\n",
    "gpus-not-asked": "#!/bin/bash\n#SBATCH -N 1\ntorchrun --standalone t.py\n",
    "nodes-by-name": ONE + "#SBATCH -w gpu[1-2]\n",
    "devices-by-hand": FOUR + "#SBATCH --gpu-bind=closest\nexport CUDA_VISIBLE_DEVICES=0,1,2,3\nsrun python t.py\n",
    "port-random": ONE + "MASTER_PORT=$RANDOM\n",
    "option-rejected": ONE + "#SBATCH --cpu-per-task=4\npython train.py\n",
    "option-rejected, a value": ONE + "#SBATCH --time=2h\npython train.py\n",
    "options-in-conflict, all GPUs": FOUR + "#SBATCH --gpus=4\nsrun python train.py\n",
    "options-in-conflict, without tasks": "#!/bin/bash\n#SBATCH --gpus-per-task=1 --time=1\nsrun python train.py\n",
    "options-in-conflict": ONE + "#SBATCH --mem=8G --mem-per-cpu=2G\npython train.py\n",
    "option-rejected, unknown": ONE + "#SBATCH --abcdef=1\npython train.py\n",
    "option-as-comment, misspelt": ONE + "#SBTACH --mem=8G\npython train.py\n",
    "slots-missing": ONE + "mpirun -np 4 python train.py\n",
    "signal-not-seen": ONE + "#SBATCH --signal=B:USR1@60\ntrap requeue USR1\nsrun python train.py\n",
    "signal-not-seen, by the steps": ONE + "#SBATCH --signal=USR1@60\ntrap 'touch stop' USR1\npython train.py\n",
    "startup-file-strict": ONE + "set -euo pipefail\nsource ~/.bashrc\npython train.py\n",
    "nodes-not-asked": "#!/bin/bash\n#SBATCH --ntasks=4 --gres=gpu:4 --time=1\nsrun python train.py\n",
    "no-environment": ONE + "python train.py\n",
    "debug-file-shared": ONE + "export NCCL_DEBUG_FILE=/scratch/nccl.log\npython train.py\n",
    "adapters-by-name": ONE + "export NCCL_IB_HCA=mlx5_0,mlx5_1\npython train.py\n",
    "pip-in-job": ONE + "pip install -r requirements.txt\npython train.py\n",
    "wait-by-sleep": ONE + "vllm serve model &\nsleep 60\npython client.py\n",
    "network-tcp-only": FOUR + "#SBATCH --uenv=x\nexport NCCL_NET=Socket\nsrun python train.py\n",
    "address-fixed": FOUR + "export MASTER_ADDR=node01\nsrun python train.py\n",
    "address-fixed, in an option": TWO + "srun torchrun --nnodes=2 --rdzv_endpoint=10.0.0.1:$PORT t.py\n",
    "gpus-hidden": FOUR.replace("per-node=4\n#SBATCH --t", "per-task=1\n#SBATCH --t") + "srun python train.py\n",
    "unread-setting, a misspelt value": ONE + "export FI_MR_CACHE_MONITOR=userfaultd\npython train.py\n",
    "few-cores, of each GPU": ONE + "#SBATCH --cpus-per-gpu=1\npython train.py\n",
    "srun-cores, of an unknown Slurm": ONE + "#SBATCH -c 8\nsrun python train.py\n",
    "option-rejected, of srun": ONE + "srun --background python train.py\n",
    "threads-not-set": FOUR + "#SBATCH --exclusive\nsrun python train.py\n",
    "index-outside-list": ONE + "#SBATCH --array=1-3\nlr=(0.1 0.2 0.3)\npython t.py ${lr[$SLURM_ARRAY_TASK_ID]}\n",
    "address-not-exported": FOUR + "MASTER_ADDR=$(hostname)\necho $MASTER_ADDR\nsrun python train.py\n",
    "unknown-slurm-variable, without its option": ONE + "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\npython t.py\n",
    "output-pattern": ONE + "#SBATCH --output=%i.out\npython train.py\n",
    "assignment-after-srun": ONE + "srun -n 1 A=1 python train.py\n",
    "nothing-to-run": ONE,
    "files-on-first-node": FOUR + "cp -r data $SLURM_TMPDIR\nsrun python train.py\n",
    "parallel-size": ONE + "vllm serve model --tensor-parallel-size 4\n",
    "nodes-awaited": FOUR.replace("per-node=4", "per-node=1", 1) + "srun " + MEETS.replace("=2", "=4", 1) + "\n",
    "devices-of-other-jobs": ONE + "export CUDA_VISIBLE_DEVICES=3\npython train.py\n",
    "idle-gpus, of which one is visible": ONE.replace("gpus=1", "gpus=4")
    + "CUDA_VISIBLE_DEVICES=0 python train.py\n",
    "variable-never-set, to itself": ONE + "export MASTER_ADDR=$MASTER_ADDR\nsrun python train.py\n",
    "typographic, in the first line": ONE.replace("bash", "bash \u2013l") + "python train.py\n",
    "counts-apart, more nodes than tasks": "#!/bin/bash\n#SBATCH --nodes=4 --ntasks=2 --time=1\nsrun python train.py\n",
    "node-alone, an address that c10d ignores": TWO
    + "srun torchrun --nnodes=2 --rdzv_backend=c10d --master_addr=$A --nproc_per_node=4 t.py\n",
    "more-ranks-than-gpus, of srun": ONE + "srun -n 4 python train.py\n",
    "kill-by-pattern, by its name": ONE + "pkill python\n",
    "kill-by-pattern, by its GPU": ONE + "for i in $(lsof /dev/nvidia0 | awk '{print $2}'); do kill -9 $i; done\n",
    "option-as-comment, beside others": ONE + "# SBATCH --mem=1G\npython t.py\n",
    "idle-gpus, as far as the script tells": ONE.replace("=1", "=4", 2).replace("nodes=4", "nodes=1") + "python t.py\n",
    "idle-gpus, of several processes": ONE.replace("gpus=1", "gpus=4") + "torchrun --nproc-per-node=2 t.py\n",
    "failure-hidden, of a function": HEAD + "run() {\n  srun python $1\n}\nrun a.py &\nrun b.py &\nwait\n",
    "failure-hidden, by another job": HEAD + "srun -c 8 python t.py || sbatch again.sh\n",
    "rank-outside-step, of one task on each node": HEAD + "export RANK=$SLURM_PROCID\nsrun -c 8 python t.py\n",
    "node-rank-for-all, in a variable": TWO
    + 'L="accelerate launch \\\n --machine_rank $SLURM_PROCID"\nsrun $L --main_process_ip $M t.py\n',
    "node-rank-for-all, by c10d": TWO
    + 'L="accelerate launch --rdzv_backend c10d --machine_rank $SLURM_PROCID"\nsrun $L t.py\n',
    "node-rank-for-all, by its name": TWO
    + "NODE_RANK=$SLURM_NODEID\nsrun torchrun --node_rank=$NODE_RANK --master_addr=$M t.py\n",
    **{
        f"edf-variant, {image}": EDF.replace("nvcr.io#nvidia/pytorch:25.06-py3", image)
        + f'com.hooks.aws_ofi_nccl.variant = "{variant}"\n'
        for image, variant in (
            ("nvcr.io#nvidia/pytorch:25.08-py3", "cuda12"), ("nvcr.io#nvidia/pytorch:24.12-py3", "cuda13"),
            ("/i/vllm-cu118.sqsh", "cuda12"), ("/i/vllm-cuda12.sqsh", "cuda13"), ("/i/vllm-cuda13.sqsh", "cuda12"),
            ("rocm/pytorch:latest", "cuda-dl"), ("/i/mine.sqsh", "rocm6"),
        )
    },
}  # fmt: skip
"""Scripts and EDFs with a problem, by the rule that finds it and, after a comma, the variant of the problem."""
TRAINING = {
    "idle-gpus": (
        "#SBATCH -N 1\n#SBATCH --gpus-per-node=4\nsrun python train.py\n",
        "import torch\nmodel = torch.nn.Linear(2, 2).cuda()\n",
    ),
    "local-rank-of-one-gpu": (
        FOUR.replace("--gpus-per-node=4", "--gpus-per-task=1") + "srun python train.py\n",
        'import os, torch\ntorch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n',
    ),
}
"""Scripts with a problem, each with the training program that it starts."""


def test_fixes_for_an_extended_image(cli: Cli, write: Write) -> None:
    off = '[annotations]\ncom.hooks.cxi.enabled = "false"\n'
    hook = 'com.hooks.aws_ofi_nccl.enabled = "true"\n'

    def fixes(lines: str) -> list[object]:
        rows = found(cli, write("env.toml", EXTENDED + lines), options=("--select", "extended-image"))
        return [row["fix"] for row in rows]

    assert fixes("") == ['entrypoint = true and com.hooks.cxi.enabled = "false"']
    assert fixes("entrypoint = true\n") == ['com.hooks.cxi.enabled = "false"']
    assert fixes("entrypoint = true\n" + off) == []
    assert fixes("entrypoint = true\n" + off + hook) == ["remove the annotation"]


def test_each_rule_has_a_test_case() -> None:
    assert set(load_rules()) == {case.partition(",")[0] for case in PROBLEMS} | set(TRAINING) | {
        "required-option",
        "extended-image-mpi",
        "same-work",  # tests/check/test_forms.py
        "limit-exceeded",  # tests/check/test_forms.py
        "srun-cores",  # tests/check/test_forms.py
        *(name for name, _ in PITFALLS),
    }


WHOLE = (
    'image = "/images/ngc-pytorch:26.02-py3-alps6.sqsh"\nentrypoint = true\n'
    '[annotations]\ncom.hooks.cxi.enabled = "false"\n'
)
MINE = 'image = "docker.io/me/mine:1"\n'
STEPS = {
    "an extended image": (WHOLE, "", None, {"extended-image-mpi", "tuning-need"}),
    "with its options": (WHOLE, "--mpi=pmix --network=disable_rdzv_get", None, set()),
    "with its variables": (WHOLE, "", "SLURM_MPI_TYPE=pmix SLURM_NETWORK=disable_rdzv_get", set()),
    "no hook, whatever the image": (MINE, "", None, {"edf-no-hook"}),
    "no hook on one node": (MINE, "-N 1", None, set()),
    "a name that tells, on one node": (EDF.partition("[")[0], "--nodes=1", None, set()),
    "the hook": (MINE + "[annotations]\ncom.hooks.aws_ofi_nccl.enabled = 'true'\n", "", None, set()),
}
"""An EDF, the options and variables of the two-node step that uses it, and the rules that find a problem."""


@pytest.mark.parametrize("name", ["./e.toml", "e.toml", '"$SLURM_SUBMIT_DIR"/e.toml', "${edf}"])
@pytest.mark.parametrize("case", STEPS)
def test_edf_of_a_step_is_checked_with_the_script(cli: Cli, write: Write, case: str, name: str) -> None:
    text, options, variables, wanted = STEPS[case]
    edf = write("jobs/e.toml", text)
    set_here = f"edf=./e.toml\n{f'export {variables}' if variables else ''}\n"
    file = write("jobs/job.sh", f"{HEAD}{set_here}srun -c 8 {options} --environment={name} python train.py\n")

    alone, both = found(cli, file), found(cli, file, edf)

    assert rules(alone) == wanted
    assert [row["rule"] for row in both] == [row["rule"] for row in alone]
    assert {str(row["file"]) for row in alone if row["rule"] == "edf-no-hook"} <= {"jobs/e.toml"}


def test_fix_keeps_problems_of_a_step_whose_line_moves(cli: Cli, write: Write) -> None:
    write("e.toml", WHOLE)
    file = write("job.sh", f"{HEAD}set -x cat\nsrun -c 8 --environment=./e.toml python train.py\n")

    before, after = (rules(found(cli, file, options=options)) for options in ((), ("--fix",)))

    assert before - after == {"set-x-cat"}
    assert "extended-image-mpi" in after


def test_missing_option_for_a_hook_is_reported_at_the_step(cli: Cli, write: Write) -> None:
    write("e.toml", EDF)
    file = write("job.sh", f"{HEAD}srun -c 8 --environment=./e.toml python train.py\n")

    needs = {name: rules(found(cli, file, options=("--system", name))) for name in ("daint", "santis", "clariden")}

    assert {name for name, told in needs.items() if "tuning-need" in told} == {"daint", "santis"}


@pytest.mark.parametrize("rule", TRAINING)
def test_training_program_is_read_if_it_exists(cli: Cli, write: Write, rule: str) -> None:
    script, program = TRAINING[rule]
    file = write("job.sh", script)
    assert rule not in rules(found(cli, file))

    write("train.py", program)

    assert rule in rules(found(cli, file))


def test_program_that_uses_gpu_0_may_see_only_one_gpu(cli: Cli, write: Write) -> None:
    script, _ = TRAINING["local-rank-of-one-gpu"]
    write(
        "train.py", 'local_rank = int(os.environ["SLURM_LOCALID"])\nlocal_rank = 0\ntorch.cuda.set_device(local_rank)\n'
    )

    assert "local-rank-of-one-gpu" not in rules(found(cli, write("job.sh", script)))


HINTS = {
    "options-in-conflict, without tasks",
    "memory-without-unit, of a job without GPUs", "mamba-without-hook, after a Python module",
    "output-folder", "placeholder, in a list", "failure-hidden, set +x", "failure-hidden, kept and shown alone",
    "failure-hidden, in an if", "failure-hidden, by another job", "output-folder, made by the job itself",
    "output-folder, made by a job that submits the next",
    "venv-unpacked, conda on many nodes", "edf-variant, /i/mine.sqsh", "conda-without-hook, behind a module",
    "port-fixed, where a job may have the whole node", "options-behind-program, that it may have too",
    "endpoint-of-each-node, a number", "endpoint-of-each-node, of a variable",
    "node-rank-for-all, by c10d",
    "option-as-comment, beside others", "option-rejected, unknown",
    "option-rejected, of srun", "srun-cores, of an unknown Slurm",
    "idle-gpus, of several processes", "idle-gpus, as far as the script tells",
    "tasks-without-step, of a launcher", "tasks-without-step, in a container", "unread-setting, but by the program",
    "tasks-without-step, on one node", "several-addresses, by the name",
}  # fmt: skip
"""Problems that are only hints, because the file does not show whether they matter on its system."""


@pytest.mark.parametrize("case", PROBLEMS)
def test_each_problem_is_found_with_its_severity(cli: Cli, write: Write, case: str) -> None:
    rule = case.partition(",")[0]

    data = found(cli, put(write, PROBLEMS[case]), options=("--all",))

    severities = {row["severity"] for row in data if row["rule"] == rule}
    assert severities == {"hint" if case in HINTS else load_rules()[rule].severity}


SUBMITTED = "# sbatch --export=ALL,M=n1,head=n1,MASTER_ADDR=n1,MASTER_PORT=$PORT,PORT=5\n"
"""A comment that shows how the variables of the correct scripts are set."""
GUARDED = '[env]\nNCCL_PROTO = "^LL128"\n'
QUIET = {
    "an abbreviated option of torchrun": TWO
    + "srun torchrun --nnodes 2 --nproc_per 4 --rdzv_backend c10d "
    + "--rdzv_endpoin $M:$PORT t.py\n",
    "an unknown program after others": ONE.replace("--gpus", "--mail-type=FAIL --gpus") + "python a.py\nflwr run .\n",
    "conda activate, after a file that the author trusts": ONE + "source ~/.bashrc\nconda activate x\npython t.py\n",
    "the command line of sbatch gives the number of tasks": "#!/bin/bash\n#SBATCH --gpus-per-task=1 --time=9\n"
    + "export CUDA_VISIBLE_DEVICES=3,2,1,0\nsrun python t.py\n",
    "the name of a job is free": ONE + "#SBATCH --job-name=your_model\npython t.py\n",
    "a tag of a text is no placeholder": ONE + "python - <<'E'\nSTART, END = '<ANSWER>', '</ANSWER>'\nE\n",
    "pkill, of the children of one process": ONE + "watch.sh &\npid=$!\npython t.py\npkill -P $pid\n",
    "accelerate makes the endpoint of c10d from the address": TWO
    + "srun bash -c 'accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --rdzv_backend c10d "
    + "--main_process_ip $M --machine_rank $SLURM_NODEID t.py'\n",
    "script-directory, with a fallback": ONE + 'cd "${SLURM_SUBMIT_DIR:-$(dirname "$0")}"\npython train.py\n',
    "the endpoint of one node": "torchrun --nnodes=1 --rdzv_backend=c10d --rdzv_endpoint=$(hostname):29500 t.py\n",
    "the endpoint of a batch script": TWO
    + "srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv_backend=c10d --rdzv_id=$SLURM_JOB_ID "
    + "--rdzv_endpoint=$(hostname):$((10000 + SLURM_JOB_ID % 20000)) t.py\n",
    "script-directory, outside of Slurm": '#!/bin/bash\ncd "$(dirname "$0")"\npython train.py\n',
    "memory-without-unit, all memory": ONE + "#SBATCH --mem=0\npython train.py\n",
    "memory-without-unit, megabytes": ONE + "#SBATCH --mem=64000\npython train.py\n",
    "mamba-without-hook, hook": ONE + 'eval "$(mamba shell hook --shell bash)"\nmamba activate e\npython train.py\n',
    "workers-without-cores, cores": ONE + "#SBATCH -c 9\npython train.py --num_workers 8\n",
    "token-placeholder, a variable": ONE + "export HF_TOKEN=$TOKEN\npython train.py\n",
    "a launcher where the job has one node": FOUR
    + "if [[ $SLURM_NNODES == 1 ]]; then deepspeed train.py; else srun -c 8 bash run.sh; fi\n",
    "a step sets its ranks, quoted": HEAD + "srun -c 8 bash -c 'export RANK=$SLURM_PROCID; exec python train.py'\n",
    "a step sets its ranks, escaped": HEAD + 'srun -c 8 bash -c "export RANK=\\$SLURM_PROCID; python train.py"\n',
    "the batch script names itself as the head": HEAD + "export MASTER_ADDR=$(hostname)\nsrun -c 8 python t.py\n",
    "the head's name, in a step, expanded before it": HEAD
    + 'srun -c 8 bash -c "export MASTER_ADDR=$(hostname); python t.py"\n',
    "the exit code is kept": HEAD + "srun -c 8 python t.py\nstatus=$?\nkill $monitor\nexit $status\n",
    "the exit code is given in an if": HEAD + "srun -c 8 python t.py\nif [ $? -ne 0 ]; then\n  exit 1\nfi\necho fine\n",
    "a step that stops at a failure": HEAD + "srun -c 8 bash -c 'set -e; python t.py; echo done'\n",
    "a step whose last program is training": HEAD + "srun -c 8 bash -c 'hostname; python t.py'\n",
    "an exit code that is asked at once": HEAD + "srun -c 8 python t.py\nexit $?\n",
    "an environment on the node's own disk": HEAD + 'eval "$(conda shell.bash hook)"\n'
    "conda activate /mnt/bb/$USER/env\nsrun -c 8 python t.py\n",
    "a helper before the training of mpirun": FOUR + "ulimit -c 0\npython order.py\nmpirun -np 8 perf\n",
    "an environment that one node reads": HEAD + "source $SCRATCH/venv/bin/activate\nsbatch next.sh\npython setup.py\n",
    "a setting that its writer says has to stay": ONE
    + "# do not remove or the training will hang\nexport CUDA_LAUNCH_BLOCKING=1\npython t.py\n",
    "a download, then a message, without a GPU": "#!/bin/bash\n#SBATCH -n 1 -t 60\npython download.py\necho done\n",
    "a script that installs": ONE + "python setup.py install\npip install tqdm\n",
    "options need no blank": "#SBATCH--time=1:0:0\n#SBATCH--nodes=1\n",
    "pipefail": "set -o pipefail\ntorchrun train.py | tee log\n",
    "what tee copies is no training": "echo start | tee -a log\nnvidia-smi | tee -a log\n",
    "a comment is no command": "# pkill -f all, MASTER_PORT=29500\necho fine # export MASTER_PORT=29500\n",
    "a heredoc is no command": "cat > run.sh <<'END'\nexport MASTER_PORT=29500\nEND\n",
    "words are no commands": "echo 'pkill -f; export MASTER_PORT=29500'\n",
    "a packed environment": HEAD + "source /user-tools/bin/activate\nsrun -c 8 python train.py\n",
    "what is in activate/ is sourced": "#SBATCH --uenv=pytorch/v2.6.0:v1\nsource activate/clariden.sh\n",
    "an uenv that sets its variables itself": "#SBATCH --uenv=pytorch/v2.9.1:v2 --view=default\n"
    "#SBATCH --network=disable_rdzv_get\nexport MPICH_GPU_SUPPORT_ENABLED=0\nsrun python train.py\n",
    "a condition of several parts": 'if [[ -z "$A" || -z $B || -f "$C" || ! -d d ]]; then exit 1; fi\n',
    "a default, then an if": "X=1\nif [ $1 ]; then\n  X=2\nfi\n",
    "both arms of an if": "if [ $1 ]; then X=1; else X=2; fi\n",
    "the arms of a case": "case $1 in\na) X=1 ;;\nb|c) X=2 ;;\nesac\n",
    "either by && and ||": '[ "$1" ] && export X=1 || export X=2\n',
    "an addition": "X=a\nX+=b\n",
    "a loop": "for i in 1 2; do\n  X=1\n  python a.py\n  X=2\ndone\n",
    "a program reads the first value": "export X=1\nsrun a\nexport X=2\nsrun b\n",
    "cores by a mask": HEAD + "srun --cpu-bind=mask_cpu:0xff python t.py\n",
    "a probe beside the training": HEAD + "srun nvidia-smi\nsrun -c 8 python t.py\n",
    "a script that makes the folder and submits itself": "#SBATCH -o logs/%j.out\n"
    'if [ -z $SLURM_JOB_ID ]; then\n  mkdir -p logs\n  sbatch "$0"\n  exit\nfi\n',
    "a fixed port on a node of its own": "#SBATCH -N 1\n#SBATCH --exclusive\nexport MASTER_PORT=29500\n",
    "a fixed port where a step takes all GPUs of a node": ONE.replace("#SBATCH --gpus=1\n", "")
    + "export MASTER_PORT=6000\nN=$(($SLURM_NNODES * 8))\nsrun -n $N --gpus-per-task=1 python t.py\n",
    "a fixed port where the job has the four GPUs of a node": ONE.replace("--gpus=1", "--gpus=4")
    + "export MASTER_PORT=29500\npython t.py\n",
    "a fixed port where nodes are exclusive": "#SBATCH --uenv=x/v2.9:v1\n#SBATCH -N 1\nsource activate/x.sh\n"
    "export MASTER_PORT=29500\n",
    "a rank of nodes for a launcher": TWO + "srun bash -c 'export RANK=$SLURM_LOCALID; "
    "torchrun --nnodes=2 --nproc-per-node=4 --node_rank=$SLURM_NODEID --master_addr=$M t.py'\n",
    "the world by an old name": FOUR + "export WORLD_SIZE=$SLURM_NPROCS\nsrun -c 8 python t.py\n",
    "the world as a product": FOUR
    + "export WORLD_SIZE=$((SLURM_NNODES * SLURM_NTASKS_PER_NODE))\nsrun -c 8 python t.py\n",
    "the world by the GPUs": FOUR + "GPUS=4\nexport WORLD_SIZE=$(($SLURM_NNODES * $GPUS))\nsrun -c 8 python t.py\n",
    "a rank that is worked out": FOUR + "srun bash -c 'export RANK=$((8*SLURM_NODEID+SLURM_LOCALID)); python t.py'\n",
    "a launcher of a Python by its path": TWO
    + f"srun /usr/bin/python3 -m {MEETS.replace('torchrun', 'torch.distributed.run')}\n",
    "a usage text in columns": ONE
    + "cat <<EOF\n  --output-dir <absolute_path>  Where all logs go\nEOF\nsrun python t.py\n",
    "a rank that nothing exports": FOUR + "RANK=0\nsrun -c 8 python t.py\n",
    "options of a heredoc that is submitted": "sbatch <<EOT\n#!/bin/bash\n#SBATCH --nodes=1\npython a.py\nEOT\n",
    "a level by its number": "#SBATCH --uenv=x\n#SBATCH -N 1\nsource activate/x.sh\nexport NCCL_NET_GDR_LEVEL=3\n",
    "the value of another site": "#SBATCH --uenv=x\nsource activate/x.sh\nexport NCCL_CROSS_NIC=0\n",
    "PYTHONPATH without an environment": "#SBATCH --uenv=x\nsource activate/x.sh\nexport PYTHONPATH=$PWD\n",
    "ranks that a loop starts": FOUR
    + "for i in 0 1; do\n  export RANK=$i\n  python prepare.py\ndone\nsrun -c 8 python t.py\n",
    "a number of the only node of a step": TWO
    + "srun -n 1 torchrun --nproc-per-node=4 --node_rank=0 --master_addr=$MASTER_ADDR t.py\n",
    "one launcher a node": FOUR.replace("per-node=4", "per-node=1", 1)
    + "srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-endpoint=$head:1$SLURM_JOB_ID t.py\n",
    "one launcher a node, said by srun": FOUR + f"srun --ntasks-per-node=1 {MEETS}\n",
    "a launcher behind what starts srun": FOUR
    + f"run() {{ $@; }}\nL='srun -n2 --ntasks-per-node=1'\nrun srun -n2 {MEETS}\n$L {MEETS}\n"
    f"timeout 9 srun -n2 {MEETS}\n",
    "python -u, of a launcher": TWO + f"srun python -u -m torch.distributed.run {MEETS.removeprefix('torchrun')}\n",
    "an address in a variable or a file": TWO
    + "srun torchrun $ARGS t.py\nsrun accelerate launch --config_file a.yaml t.py\n",
    "what the batch script takes for all": TWO
    + "M=`hostname`\nexport L=\"torchrun --nnodes 2 --nproc_per_node 4 --master_addr $M\"\nsrun bash -c '$L t.py'\n",
    "a number of a node that c10d does not read": TWO
    + f"srun {MEETS.replace('t.py', '--node_rank=$SLURM_NODEID t.py')}\n",
    "a number of a node, in the step": TWO
    + "srun bash -c 'torchrun --nnodes=2 --nproc-per-node=4 --node_rank=$SLURM_NODEID --master_addr=$M t.py'\n",
    "a step in the background that is waited for": TWO + "srun python t.py &\nwait $!\n",
    "a GPU for one program": FOUR + "CUDA_VISIBLE_DEVICES=0 python test.py\nsrun -c 8 python t.py\n",
    "a GPU for the programs of a subshell": FOUR
    + "(export CUDA_VISIBLE_DEVICES=0; python prepare.py; python test.py)\nsrun -c 8 python t.py\n",
    "a job on one GPU of a uenv": "#SBATCH --uenv=x/v2.9:v1 -N1 --gpus-per-node=1 -c 72\nsrun -c 72 python t.py\n",
    "a launcher of one rank in each task": FOUR + "srun torchrun --nnodes=8 --nproc-per-node=1 t.py\n",
    "a launcher on each node by ssh": FOUR + "for n in $nodes; do ssh $n torchrun --nnodes=2 t.py & done\nwait $!\n",
    "deepspeed with a hostfile": FOUR + "deepspeed --hostfile=hosts t.py\n",
    "an escaped dollar in double quotes": HEAD + 'srun bash -c "python t.py --id \\$SLURM_JOB_ID"\n',
    "a token from a file": ONE + "export HF_TOKEN=$(cat ~/.hf)\n",
    "a name with token in it": ONE + "export TOKENIZER_NAME=meta-llama/Llama-3-8B-Instruct\n",
    "each process is waited for": ONE + "python a.py & pid=$!\nwait $pid\n",
    "redirections": HEAD + "srun -c 8 python t.py < in > out\n",
    "options in a text that is written": 'echo "#!/bin/bash\n#SBATCH --nodes=1\nls" > job.sh\n',
    "a folder of a rank, worked out in the step": FOUR
    + 'LOG_PATH="log_\\$SLURM_PROCID"\nsrun sh -c "python t.py >$LOG_PATH"\n',
    "a list with the indices of the array": ONE
    + "#SBATCH --array=0-2\nlr=(0.1 0.2 0.3)\npython t.py ${lr[$SLURM_ARRAY_TASK_ID]}\n",
    "a printed heredoc": ONE + "cat <<EOF\n  --data <path to the data>\n  run <JOBID>\nEOF\npython train.py\n",
    "an address in an option": FOUR + "MASTER_ADDR=$(hostname)\nsrun python train.py --master $MASTER_ADDR\n",
    "a longer list": "X=a\nX+=b\nX+=c\n",
    "a container of no known site": FOUR
    + "export NCCL_SOCKET_IFNAME=ib0\nsrun singularity exec x.sif bash -c 'python t.py'\n",
    "a program that starts its own ranks": ONE.replace("--gpus=1", "--gpus=4")
    + "export WORLD_SIZE=4\nsrun python t.py\n",
    "a placeholder in a comment": "cd $WORK # /work/<username>\n",
    "a launcher that picks its own port": ONE + "export MASTER_PORT=9999\ntorchrun --standalone t.py\n",
    "ranks where Slurm decides how many of four tasks share a node": ONE.replace("--nodes=1", "--ntasks=4 --gres=gpu:4")
    + "srun bash -c 'export RANK=$SLURM_LOCALID; python t.py'\nsrun bash -c 'export RANK=$SLURM_NODEID; python t.py'\n",
    "one task, whose rank is 0": ONE + 'srun bash -c "torchrun --node_rank $SLURM_PROCID t.py"\n',
    "a shell that stops at a failure": HEAD + "set -x -e\nsrun -c 8 python t.py\necho done\n",
    "a folder that a comment says to make": "# mkdir -p logs; sbatch job.sh\n#SBATCH -o logs/%j.out\n",
    "an environment within the image": HEAD
    + "srun singularity exec x.sif bash -c 'source /opt/conda/bin/activate x; python t.py'\n",
    "conda, and its hook": ONE + 'eval "$(conda shell.bash hook)"\nconda activate x\n',
    "conda in a login shell": ONE.replace("bash", "bash -l") + "conda activate x\n",
    "the tasks of an array": ONE + "#SBATCH --array=0-15:3%4\n",
    "an option that is switched off beside others": ONE + "# SBATCH --mem=1G\n##SBATCH --mem=2G\nls\n",
    "a folder that a shell names": "sbatch <<E\n#!/bin/bash\n#SBATCH --output=$HOME/%j.out\nls\nE\n",
    "a part that another file begins": "#SBATCH --nodes=1\npython t.py\n",
    "options for a file that begins elsewhere": "echo '#SBATCH --nodes=1' >> job.sh\n",
    "quotes and dashes in a text": ONE + "echo a \u2013b \u201cc\u201d\npython t.py --name 'a \u2013b \u201cc\u201d'\n",
    "an equals sign that is no assignment": ONE + "[ $1 = a ]\nlet x = 5\npython <<E\nx = 5\nE\n",
    "a usage text": "echo 'Usage: job.sh <ACCOUNT>'\n",
    "a dash and a no-break space that Slurm takes": ONE
    + "#SBATCH --job-name=a\u2013b --comment=\"a \u2013\u00a0b\" # x \u2013y\u00a0z\necho 'a \u2013b\u00a0c'\n",
    "options of a program": ONE + "torchrun --standalone t.py --nnodes_in_graph 4 --nproc 4\n",
    "a program that the launcher does not start by Python": ONE + "torchrun --standalone --no-python python t.py\n",
    "a server in one task": FOUR + "srun -N 1 -n 1 vllm serve M --tensor-parallel-size=4\n",
    "servers on ports of their own": FOUR + "srun -c 8 bash -c 'vllm serve M --port $((8000 + SLURM_LOCALID))'\n",
    "nodes that a program starts itself": FOUR + "ray start --head\npython t.py\n",
    "counts that agree": FOUR + "#SBATCH --ntasks=8\nsrun -c 8 python t.py\n",
    "the first of several addresses": TWO + "ip=$(hostname -I | awk '{print $1}')\n" + f"srun {MEETS}\n",
    "a number of the node, filled in by the step": TWO
    + 'L="torchrun --nproc_per_node=4 --nnodes=2 --master_addr=$M --node-rank \\$SLURM_NODEID"\n'
    + 'srun bash -c "$L t.py"\n',
    "processes of its own that a job ends": ONE + "kill $(jobs -p)\npgrep -P $$ | xargs kill\n",
    "levels of NCCL": ONE + "export NCCL_DEBUG=info NCCL_IB_HCA=mlx5_0:1\n",
    "a command's output in what a step runs": HEAD
    + 'srun -c 8 bash -c "torchrun --nnodes=2 --master_addr $(scontrol show hostnames | head -n 1) \\\n'
    + ' --node_rank \\$SLURM_NODEID t.py"\n',
    "the cores of each task": FOUR
    + "#SBATCH -c 8\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nsrun -c 8 python t.py\n",
    "the default of a path": ONE + "ROOT=${STORAGE:-/path/to/storage}\n",
    "a probe by srun, then a message": ONE + "srun nvidia-smi\necho done\n",
    "a danger of another GPU": "#SBATCH -p standard-g -N 2\nmodule load rocm\n"
    + "export NCCL_PROTO=LL128 FI_PROVIDER=cxi\n",
    "outputs of their own": ONE + "#SBATCH --array=0-3 -o %x-%A_%a.out -e /dev/null\n",
    "an output that goes on": ONE + "#SBATCH --output=a.out --open-mode=append\n",
    "conda behind its script": ONE + "source /opt/conda/etc/profile.d/conda.sh\nconda activate x\n",
    "variant and image of CUDA 13": EDF.replace("25.06", "25.09")
    + f'com.hooks.aws_ofi_nccl.variant = "cuda13"\n{GUARDED}',
    "variant and image of CUDA 12": EDF + f'com.hooks.aws_ofi_nccl.variant = "cuda12"\n{GUARDED}',
    "an artifact, which takes no variant": EDF
    + f'com.hooks.aws_ofi_nccl.variant = "cuda13"\ncom.hooks.netstack.source = "artifact"\n{GUARDED}',
    "ROCm": EDF.replace("nvcr.io#nvidia/pytorch:25.06-py3", "rocm/pytorch:rocm6.4")
    + f'com.hooks.aws_ofi_nccl.variant = "rocm6"\n{GUARDED}',
}


@pytest.mark.parametrize("case", QUIET)
def test_correct_scripts_have_no_problems(cli: Cli, write: Write, case: str) -> None:
    text = QUIET[case] if QUIET[case].startswith(("image", "mounts")) else QUIET[case] + SUBMITTED

    answer = cli("check", put(write, text))

    assert (answer.code, answer.stdout) == (0, "")
    assert answer.stderr.startswith("no problems found in 1 file")


def test_fix_for_an_output_directory_that_does_not_exist(cli: Cli, write: Write, place: Path) -> None:
    numbered = write("jobs/numbered.sh", "#SBATCH -o logs/%j/%x.out\nulimit -c 0\n")
    options = ("--all", "--select", "output-folder")
    fixed = found(cli, numbered, options=options)[0]["fix"]
    (place / "logs").mkdir()
    other = write("jobs/job.sh", PROBLEMS["output-folder"])

    assert fixed == "#SBATCH --output=logs/%j-%x.out, mkdir -p logs  # in the submit directory, before sbatch"
    assert rules(found(cli, other, options=options)) == {"output-folder"}, "whatever the current folder has"
    (place / ".git").mkdir()
    assert found(cli, other, options=options) == [], "jobs of a repository may be submitted above their folder"


def test_token_and_port_are_reported_once(cli: Cli, write: Write) -> None:
    token = write("token.sh", ONE + f"export HF_TOKEN=hf_{'x' * 36}\n")
    port = write("port.sh", ONE + "MASTER_PORT=12321\ntorchrun \\\n  --master_port $MASTER_PORT t.py\n")

    assert "placeholder" in rules(found(cli, token, options=("--all",)))
    assert [(finding["rule"], finding["line"]) for finding in found(cli, port)] == [("port-fixed", 5)]


def test_ignore_comment_disables_a_rule_on_its_line_or_the_next(cli: Cli, write: Write) -> None:
    text = "# uenvtool: ignore=kill-by-pattern\npkill -f a\npkill -f b\npkill -f c # uenvtool: ignore=all\n"

    assert [finding["line"] for finding in found(cli, write("job.sh", text))] == [3]


UENV = "#SBATCH --uenv=mine\n"
APPTAINER = "export FI_PROVIDER=cxi\nsrun apptainer exec {} image.sif python train.py\n"
MONITOR = "export FI_MR_CACHE_MONITOR=memhooks"
NO_RUNTIME = "#!/bin/bash\n#SBATCH --nodes=2 --time=1\n{}\nsrun python train.py\n"
BY_HOST = EDF + 'com.hooks.netstack.source = "host"\n'


@pytest.mark.parametrize(
    ("rule", "text", "system", "severity"),
    [
        ("few-cores", ONE + "python t.py\n", None, "hint"),
        ("few-cores", ONE + "#SBATCH --ntasks=8\npython t.py\n", None, None),  # cores by the name of tasks
        ("few-cores", ONE + "python t.py\n", "clariden", None),  # a node is the job's
        ("port-fixed", ONE + "export MASTER_PORT=29500\npython t.py\n", "clariden", None),
        ("port-fixed", ONE + "export MASTER_PORT=29500\npython t.py\n", "isambard-ai", "warning"),
        ("port-fixed", ONE + "#SBATCH -p standard-g\nexport MASTER_PORT=29500\npython t.py\n", "lumi", None),
        ("port-fixed", ONE + "#SBATCH -p small-g\nexport MASTER_PORT=29500\npython t.py\n", "lumi", "warning"),
        ("required-option", ONE + "python train.py\n", None, None),
        ("required-option", ONE + "python train.py\n", "clariden", "warning"),
        ("tuning-value", NO_RUNTIME.format(MONITOR), "frontier", "warning"),
        ("tuning-value", NO_RUNTIME.format(MONITOR), "clariden", "warning"),  # whatever loads Python
        ("tuning-value", NO_RUNTIME.format("export NCCL_SOCKET_IFNAME=eth0"), "frontier", "warning"),
        ("tuning-missing", NO_RUNTIME.format(""), "frontier", "warning"),
        ("tuning-missing", NO_RUNTIME.format("module load rccl-net-plugin"), "frontier", "hint"),
        ("tuning-missing", NO_RUNTIME.format("source activate/frontier.sh"), "frontier", None),
        ("tuning-missing", NO_RUNTIME.format(""), "lumi", None),  # whose containers have them
        ("tuning-missing", NO_RUNTIME.format(""), "clariden", None),
        ("tuning-guard", NO_RUNTIME.format("export NCCL_PROTO=LL128"), "clariden", "error"),
        ("tuning-guard", NO_RUNTIME.format("export NCCL_DEBUG=INFO"), "clariden", None),
        ("tuning-guard", UENV, None, "error"),
        ("tuning-guard", UENV, "santis", "error"),
        ("tuning-guard", UENV, "bristen", None),
        ("tuning-guard", UENV.replace("mine", "pytorch/v2.6.0:v1"), "clariden", None),  # NCCL 2.26
        ("tuning-guard", UENV.replace("mine", "pytorch/v2.9.1:v2"), "clariden", None),  # its view sets it
        ("tuning-guard", UENV + "export NCCL_PROTO=^LL128\n", "clariden", None),
        ("tuning-guard", UENV + 'export NCCL_PROTO="${NCCL_PROTO:-Simple}"\n', "clariden", None),
        ("tuning-guard", UENV + 'export NCCL_PROTO="$PROTOCOLS"\n', "clariden", None),
        ("tuning-guard", UENV + "export NCCL_LL128_C2C=0\n", "clariden", None),
        ("tuning-guard", UENV + "export FI_CXI_RDZV_THRESHOLD=0 FI_CXI_RDZV_GET_MIN=0\n", "clariden", None),
        ("tuning-guard", UENV + "export FI_CXI_RDZV_THRESHOLD=0\n", "clariden", "error"),
        ("tuning-guard", UENV + "source activate/clariden.sh\n", "clariden", None),
        ("tuning-guard", APPTAINER, None, "hint"),
        ("tuning-guard", APPTAINER.replace("cxi", "efa"), None, None),  # nothing shows that this is Slingshot
        ("tuning-guard", APPTAINER.replace("cxi", "efa"), "olivia", "error"),
        ("tuning-guard", APPTAINER.format("--env NCCL_PROTO=${NCCL_PROTO:-^LL128}"), "olivia", None),
        ("tuning-guard", "module load NCCL/2.29.2-GCCcore-14.2.0\n" + APPTAINER, "olivia", None),
        ("tuning-guard", "#SBATCH --nodes=1\n" + APPTAINER, "olivia", None),  # the network is not used
        ("tuning-guard", "#SBATCH --ntasks=1\n" + APPTAINER, "olivia", None),
        ("tuning-guard", "#SBATCH --nodes=2 --ntasks=1\n" + APPTAINER, "olivia", "error"),
        ("tuning-guard", EDF, None, "error"),
        ("tuning-guard", EDF, "clariden", "error"),  # whose page does not say what its hook sets
        ("tuning-guard", EDF, "daint", None),  # its hook sets it
        ("tuning-guard", EDF, "santis", None),  # with the host's libraries
        ("tuning-guard", BY_HOST, "santis", None),
        ("tuning-guard", BY_HOST.replace("host", "artifact"), "santis", "error"),
        ("tuning-guard", BY_HOST, "daint", "error"),
        ("tuning-guard", EDF + '[env]\nNCCL_PROTO = "^LL128"\n', "clariden", None),
        ("tuning-guard", EXTENDED, "clariden", None),  # the image sets it
    ],
)
def test_severity_depends_on_system_and_job_settings(
    cli: Cli, write: Write, rule: str, text: str, system: str | None, severity: str | None
) -> None:
    data = found(cli, put(write, text), options=("--all", *(("--system", system) if system else ())))

    assert next((row["severity"] for row in data if row["rule"] == rule), None) == severity, data


@pytest.mark.parametrize(
    ("label", "problems"),
    [
        ("pytorch/v2.8.0:v1", {"tuning-missing": "MPICH_GPU_SUPPORT_ENABLED", "tuning-value": "DEFAULT_TX_SIZE=32768"}),
        ("pytorch/v2.9.1:v2", {"tuning-missing": "MPICH_GPU_SUPPORT_ENABLED", "tuning-need": "disable_rdzv_get"}),
    ],
)
def test_variables_of_a_published_view_are_checked(
    cli: Cli, write: Write, label: str, problems: dict[str, str]
) -> None:
    data = found(cli, write("job.sh", f"#SBATCH --uenv={label} --view=default\nsrun python train.py\n"))

    assert rules(data) == set(problems)
    assert all(problems[str(each["rule"])] in str(each["detail"]) for each in data)


def test_wrong_value_and_all_missing_variables_are_named(cli: Cli, write: Write) -> None:
    file = write("job.sh", NO_RUNTIME.format(MONITOR))

    lines = cli("check", "--system", "frontier", file).stdout

    assert "FI_MR_CACHE_MONITOR is memhooks, should be kdreg2 on frontier: " in lines
    assert "NCCL_NET_GDR_LEVEL, NCCL_CROSS_NIC, FI_CXI_DEFAULT_CQ_SIZE, " in lines
    assert " more" not in lines


def test_tuning_of_the_given_system_is_used(cli: Cli, write: Write) -> None:
    file = write("job.sh", "#SBATCH --uenv=mine\nexport NCCL_NET='AWS Libfabric'\nexport NCCL_NET_GDR_LEVEL=SYS\n")

    named = found(cli, file, options=("--system", "clariden"))
    other, nowhere = found(cli, file, options=("--system", "daint")), found(cli, file)

    assert "tuning-value" in rules(named)
    assert "PHB" in str([each["detail"] for each in named if each["rule"] == "tuning-value"])
    for system, problems in {"daint": other, "SYSTEM": nowhere}.items():
        fix = f"source activate/{system}.sh, written by `uenvtool activate --write`"
        assert fix in {each["fix"] for each in problems}


@pytest.mark.parametrize("name", ["port-fixed", "tuning-value"])
def test_explain_knows_each_rule(cli: Cli, name: str) -> None:
    answer = cli("explain", name)

    assert answer.code == 0, answer.stderr
    assert answer.stdout.startswith(f"{name}  (uenvtool check)\n  severity: ")
    assert "  source:  " in answer.stdout


def test_explain_accepts_rules_and_variables_together(cli: Cli) -> None:
    data = json.loads(cli("explain", "--json", "port-fixed", "NCCL_NET").stdout)

    assert [entry.get("rule") or entry["name"] for entry in data] == ["port-fixed", "NCCL_NET"]


@pytest.mark.parametrize(
    "text",
    ['"', "'", "$(", "${", "`", "a\\", "srun bash -c \"'", "<<X", "((", "\\\n", "x=$(y", '"$(' * 500, "( " * 3000,
     "bash -c 'bash -c \"bash -c x\"'", "#SBATCH", "#SBATCH -", "[", "x = [", 'mounts = ["'],
)  # fmt: skip
@pytest.mark.parametrize("name", ["job.sh", "env.toml"])
def test_broken_text_does_not_crash_check(cli: Cli, write: Write, text: str, name: str) -> None:
    assert cli("check", write(name, text)).code in (0, 1)


def test_user_rules_are_applied(cli: Cli, write: Write) -> None:
    write(
        "rules/site.yaml",
        "description: Ours.\nrules:\n  debug-queue:\n    look: [{directive: partition, value: debug}]\n"
        "    severity: error\n    what: w\n    cost: c\n    fix: f\n    source: s\n",
    )
    file = write("job.sh", "#SBATCH -p debug\n")

    assert rules(found(cli, file)) == {"debug-queue"}


def test_each_shipped_rule_has_its_own_title() -> None:
    titles = [rule.title for rule in load_rules().values()]

    assert all(titles)
    assert len(set(titles)) == len(titles)
