"""Test faults that cost a job, next to forms of the same kind that are correct."""

from __future__ import annotations

import json

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
    ("array-copied", "an array of nodes"): (HEAD + "nodes=($(cat hosts))\nall=($nodes)\nssh ${all_nodes[1]} ls\n", [4]),
    ("array-copied", "a string"): (HEAD + "nodes=$(cat hosts)\nall=($nodes)\n", []),
    ("array-copied", "all elements"): (HEAD + 'nodes=($(cat hosts))\nall=("${nodes[@]}")\n', []),
    ("bash-in-sh", "an array"): ("#!/bin/sh\n#SBATCH -N 1\nlist=(a b)\necho ${list[1]}\n", [3]),
    ("bash-in-sh", "a loop"): ("#! /bin/sh\nfor ((i = 0; i < 3; i++)); do\n  echo $i\ndone\n", [2]),
    ("bash-in-sh", "bash"): ("#!/usr/bin/bash\nlist=(a b)\n", []),
    ("bash-in-sh", "POSIX"): ("#!/bin/sh\nif [ -d a ]; then\n  ls a | grep '[[:space:]]'\nfi\n", []),
    ("argument-not-checked", "none"): (HEAD + "python t.py --config=$1\npython t.py $1\n", [3]),
    ("argument-not-checked", "a test"): (HEAD + '[ -z "$1" ] && exit 1\npython t.py $1\n', []),
    ("argument-not-checked", "a number"): (HEAD + "if [ $# -lt 1 ]; then exit 1; fi\npython t.py $1\n", []),
    ("argument-not-checked", "a default"): (HEAD + "python t.py ${1:-base}\n", []),
    ("argument-not-checked", "of another shell"): (HEAD + "srun bash -c 'python t.py $1' x a\n", []),
    ("size-fixed", "a number"): (TWO_GPUS + "export WORLD_SIZE=2\nsrun python t.py\n", [4]),
    ("size-fixed", "of Slurm"): (TWO_GPUS + "export WORLD_SIZE=$SLURM_NTASKS\nsrun python t.py\n", []),
    ("size-fixed", "of one process"): (TWO_GPUS + "export WORLD_SIZE=1\nsrun python t.py\n", []),
    ("ray-tasks", "two tasks"): (HEAD + "#SBATCH -n 8 -N 4\nray start --num-cpus $SLURM_CPUS_PER_TASK\n", [3]),
    ("ray-tasks", "one task"): (HEAD + "#SBATCH -n 4 -N 4\nray start --num-cpus $SLURM_CPUS_PER_TASK\n", []),
    ("ray-tasks", "all cores"): (HEAD + "#SBATCH -n 8 -N 4\nray start --num-cpus $SLURM_CPUS_ON_NODE\n", []),
    ("profile-of-all-ranks", "a step"): (
        HEAD + "#SBATCH --ntasks-per-node=4\nsrun nsys profile \\\n -o all python t.py\n",
        [4],
    ),
    ("profile-of-all-ranks", "in a variable"): (
        HEAD + '#SBATCH --ntasks-per-node=4\nP="nsys profile -o r"\nsrun $P python t.py\n',
        [4],
    ),
    ("profile-of-all-ranks", "by rank"): (
        HEAD + "#SBATCH --ntasks-per-node=4\nsrun nsys profile -o %q{SLURM_PROCID} python t.py\n",
        [],
    ),
    ("profile-of-all-ranks", "one process"): (
        HEAD + "#SBATCH --ntasks-per-node=4\nnsys profile -o r python t.py\n",
        [],
    ),
    ("wait-by-sleep", "before the server"): (HEAD + "sleep 1\nray start --head --block &\nsleep 10\n", [5]),
    ("failure-hidden", "two programs"): (TWO_GPUS + "srun python a.py\nsrun python b.py\n", [4]),
    ("failure-hidden", "set -e"): (TWO_GPUS + "set -e\nsrun python a.py\nsrun python b.py\n", []),
    ("failure-hidden", "either of two"): (
        TWO_GPUS + "if $A; then\n  srun python a.py\nelse\n  srun python b.py\nfi\n",
        [],
    ),
    ("output-overwritten", "replaced later"): (HEAD + "#SBATCH -o a.out\n#SBATCH -o %j.out\nls\n", []),
    ("output-folder", "of another machine"): (HEAD + "#SBATCH -o /no-such-place/me/%j.out\nls\n", []),
    ("output-folder", "of this machine"): (HEAD + "#SBATCH -o /usr/no-such-place/%j.out\nls\n", [3]),
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
    ("idle-gpus", "a server"): (TWO_GPUS + "vllm serve m --port 80\n", [4]),
    ("idle-gpus", "a server as a module"): (
        TWO_GPUS + "srun python -m vllm.entrypoints.openai.api_server &\nwait $!\n",
        [4],
    ),
    ("idle-gpus", "a server on all GPUs"): (TWO_GPUS + "vllm serve m \\\n  -tp 2\nvllm serve m $ARGS\n", []),
    ("idle-gpus", "a server on one GPU each"): (TWO_GPUS + "CUDA_VISIBLE_DEVICES=1 vllm serve m\n", []),
    ("idle-gpus", "an unknown program"): (TWO_GPUS + "python t.py --d 1 --seed 2\n", [4]),
    ("idle-gpus", "a number of devices"): (TWO_GPUS + "python t.py --d 2\n", []),
    ("idle-gpus", "JAX"): (TWO_GPUS + "export XLA_FLAGS=--x\npython t.py\n", []),
    ("idle-gpus", "a script that starts Ray"): (TWO_GPUS + "./start_head.sh\nray status\npython t.py\n", []),
    ("idle-gpus", "a list of GPUs"): (TWO_GPUS + "export CUDA_VISIBLE_DEVICES=0,1\npython t.py\n", []),
    ("idle-gpus", "a driver of Ray"): (TWO_GPUS + "srun ray start --block &\npython t.py\nwait $!\n", []),
    ("workers-without-cores", "a heredoc"): (TWO_GPUS + "python - <<E\nLoader(d, num_workers=16)\nE\n", [5]),
    ("workers-without-cores", "no workers"): (TWO_GPUS + "python - <<E\nLoader(d, num_workers=0)\nE\n", []),
    ("workers-without-cores", "cores"): (TWO_GPUS + "#SBATCH -c 17\npython - <<E\nnum_workers = 16\nE\n", []),
    ("failure-hidden", "a tool in a pipe"): (HEAD + "python count.py | tee count.log\n", []),
    ("counts-apart", "one task of several"): (HEAD + "#SBATCH -N 1 -n 1 --ntasks-per-node=4\nsrun python t.py\n", []),
    ("counts-apart", "one task for two GPUs"): (TWO_GPUS + "#SBATCH -N 1 --ntasks-per-node=2\nsrun python t.py\n", [5]),
    ("counts-apart", "a launcher in one task"): (
        TWO_GPUS + "#SBATCH -N 1 --ntasks-per-node=2\nsrun torchrun --nproc-per-node=2 t.py\n",
        [],
    ),
    ("counts-apart", "a node without a task"): (HEAD + "#SBATCH -N 2 -n 1 --ntasks-per-node=4\nsrun a t.py\n", [3]),
    ("launcher-in-launcher", "one task of several"): (
        TWO_GPUS + "#SBATCH -N 1 --ntasks-per-node=4\nsrun torchrun --standalone --nproc-per-node=4 t.py\n",
        [],
    ),
    ("launcher-in-launcher", "a step with more tasks"): (
        TWO_GPUS + "#SBATCH -N 1\nsrun --ntasks-per-node=4 torchrun --standalone --nproc-per-node=4 t.py\n",
        [5],
    ),
    ("option-behind-command", "a prompt first"): ("$ cat job.sh\n" + HEAD, []),
    ("option-behind-command", "no #! at all"): ("cat job.sh\n#SBATCH -N 1\n", [2]),
    ("shebang", "a prompt first"): ("$ cat job.sh\n" + HEAD, [1]),
    ("devices-by-hand", "the first of several"): (TWO_GPUS + "export CUDA_VISIBLE_DEVICES=0\nsrun python t.py\n", [4]),
    ("devices-by-hand", "all"): (TWO_GPUS + "export CUDA_VISIBLE_DEVICES=0,1\nsrun python t.py\n", []),
    ("devices-by-hand", "of two programs"): (
        TWO_GPUS + "CUDA_VISIBLE_DEVICES=1 vllm serve m &\nCUDA_VISIBLE_DEVICES=0 python t.py\n",
        [],
    ),
    ("devices-by-hand", "in the order of the cores"): (TWO_GPUS + "export CUDA_VISIBLE_DEVICES=1,0\npython t.py\n", []),
    ("devices-by-hand", "the only one"): (HEAD + "#SBATCH --gpus=1\nexport CUDA_VISIBLE_DEVICES=0\npython t.py\n", []),
    ("no-environment", "a container in a variable"): (HEAD + 'C="apptainer exec x.sif"\n$C python3 t.py\n', []),
    ("no-environment", "a variable"): (HEAD + 'C="time nice"\n$C python3 t.py\n', [4]),
    ("srun-cores", "in a variable"): (HEAD + '#SBATCH -c 4\nS=" \\\n -c 4 \\\n"\nsrun $S python t.py\n', []),
    ("srun-cores", "a variable without cores"): (HEAD + '#SBATCH -c 4\nS="-n 4"\nsrun $S python t.py\n', [5]),
    ("rdzv-id-fixed", "a port of the job"): (
        HEAD + "PORT=$((9000 + SLURM_JOB_ID % 9))\nsrun torchrun --rdzv_id=7 t.py\n",
        [],
    ),
    ("kill-by-pattern", "by its name"): (HEAD + "pkill python\n", [3]),
    ("port-too-large", "the job ID"): (HEAD + "export MASTER_PORT=$(( 20000 + (SLURM_JOBID % 50000) ))\n", [3]),
    ("port-too-large", "the job ID first"): (
        HEAD + "torchrun --master_port=$((SLURM_JOBID % 60000 + 6000)) t.py\n",
        [3],
    ),
    ("port-too-large", "in range"): (HEAD + "PORT=$((10000 + SLURM_JOB_ID % 50000))\nP=$((20000 + A % 50000))\n", []),
    ("port-too-large", "RANDOM"): (HEAD + "PORT=$((RANDOM % 50000 + 30000))\n", []),
    ("arguments-in-quotes", "all arguments"): (HEAD + 'srun bash -c "\n  a \\"b\\"\n  python t.py $@"\n', [5]),
    ("arguments-in-quotes", "an array"): (HEAD + 'A=(--x 1)\nsrun bash -lc "python t.py ${A[@]}"\n', [4]),
    ("arguments-in-quotes", "one argument"): (HEAD + 'srun bash -c "python $1" _ t.py\n', [3]),
    ("arguments-in-quotes", "of the inner shell"): (
        HEAD
        + 'srun bash -c "python t.py \\$@" _ "$@"\nbash -c "python $1 $*"\n'
        + 'bash -c \'python "$@"\' _ "$@"\n./t.sh -c "a $@"\n',
        [],
    ),
    ("address-not-exported", "in single quotes"): (HEAD + "M=a\nsrun bash -c 'python t.py '\"'$A'\"' $M'\n", [4]),
    ("address-not-exported", "in a heredoc"): (HEAD + "M=a\nbash <<'E'\n  python ${M} $M\nE\n", [5]),
    ("address-not-exported", "in a heredoc that bash expands"): (HEAD + "M=a\nsrun bash <<E\n  python $M\nE\n", []),
    ("address-not-exported", "exported in another way"): (
        HEAD + "M=a N=b\nO=c\nexport O\nsrun --export=ALL,M=$M env N=$N bash -c 'python $M $N $O ${P:-1}'\nP=1\n",
        [],
    ),
    ("address-not-exported", "set by the inner shell"): (
        HEAD + "M=a\nsrun bash -c 'for M in 1 2; do python $M; done'\nK=c\nsrun bash -c 'read -r K; a $K'\n",
        [],
    ),
    ("address-not-exported", "exported by an option"): (HEAD + "set -o allexport\nM=a\nsrun sh -c 'b $M'\n", []),
    ("address-not-exported", "from the environment"): (HEAD + "M=$M:/a\nsrun bash -c 'python $M'\n", []),
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
    ("gpus-not-asked", "whole nodes"): (HEAD + "#SBATCH -N 2 --exclusive\nsrun torchrun t.py\n", []),
    ("gpus-not-asked", "nodes of one user"): (HEAD + "#SBATCH -N 2 --exclusive=user\nsrun torchrun t.py\n", [4]),
    ("output-pattern", "of another program"): (HEAD + "#SBATCH -o %j-%q.out\n#SBATCH -e %j-%r.err\n", [3, 4]),
    ("output-overwritten", "the SLUID"): (HEAD + "#SBATCH -o %S.out\nls\n", []),
    ("option-rejected", "options of Slurm 25.05 and newer"): (
        HEAD + "#SBATCH --consolidate-segments --spread-segments --external --resources=a --requeue=expedite\n",
        [],
    ),
    ("option-rejected", "an option with and without a value"): (
        HEAD + "#SBATCH --oom-kill-step\n#SBATCH --oom-kill-step=1\n#SBATCH --exclusive=ALLOCATION\n",
        [],
    ),
    ("option-rejected", "a signal"): (HEAD + "#SBATCH --signal=B:PIPE@60\n#SBATCH --signal=B:PIPES@60\n", [4]),
    ("option-rejected", "the old name of --cpu-bind"): (HEAD + "srun --cpu_bind=cores python t.py\n", []),
    ("startup-file-strict", "before set -e"): (HEAD + "source ~/.bashrc\nset -eu\nsource ~/.profile\n", [5]),
    ("threads-not-set", "one core for each task"): (
        HEAD + "#SBATCH -n 4 --gpus-per-node=4\nsrun python t.py\n",
        [],
    ),
    ("threads-not-set", "whole nodes"): (
        HEAD + "#SBATCH -N 1 -n 4 --gpus-per-node=4 --exclusive\nsrun python t.py\n",
        [4],
    ),
    ("text-as-command", "single quotes"): (HEAD + "'''\nsbatch a.sh DIR\n'''\npython t.py\n", [3]),
    ("text-as-command", "double quotes"): (HEAD + '"""Trains.\n\nSee README."""\npython t.py\n', [3]),
    ("text-as-command", "an argument"): (HEAD + "echo \"\"\"\na\n\"\"\"\npython -c '''\nimport torch\n'''\n", []),
    ("placeholder", "in triple quotes"): (HEAD + "'''\nsbatch a.sh <your name>\n'''\nD=<your name>\n", [6]),
    ("placeholder", "in a comment of the shell"): (HEAD + ": <<END\nsbatch a.sh <your name>\nEND\n", []),
    ("placeholder", "a path for each line"): (
        HEAD + "python t.py \\\n  --train /path/to/train \\\n  --test=/path/to/test\nX=/path/to/x\n",
        [4, 6],
    ),
    ("placeholder", "a path as default"): (HEAD + 'D=${D:-/path/to/data}\necho "--data /path/to/x"\n', []),
    ("node-alone", "a variable with a command in backticks"): (
        HEAD + '#SBATCH -N 4\nN=`scontrol show hostnames | wc -l`\nL="torchrun --nnodes $N"\nsrun bash -c "$L t.py"\n',
        [6],
    ),
    ("port-random", "shuf"): (HEAD + "MASTER_PORT=$(shuf -i 1-65535 -n 1)\nPORT=`shuf -n1 -i 1000-9000`\n", [3, 4]),
    ("port-random", "shuf of free ports"): (HEAD + "MASTER_PORT=$(shuf -i 20000-30000 -n 1)\n", []),
    ("port-random", "arithmetic"): (HEAD + "PORT=$((RANDOM % 20000))\nPORT2=$((20000 + RANDOM % 1000))\n", [3]),
    ("unread-setting", "the settings of the rendezvous"): (
        HEAD + 'torchrun --rdzv_conf "timeout=90,rdzv_endpoint=$A:1" t.py\ntorchrun --rdzv_conf timeout=90 t.py\n',
        [3],
    ),
    ("debug-checks", "DETAIL"): (HEAD + "export TORCH_DISTRIBUTED_DEBUG=DETAIL\n", [3]),
    ("debug-checks", "INFO"): (HEAD + "export TORCH_DISTRIBUTED_DEBUG=INFO\n", []),
    ("array-count", "a share"): (HEAD + "#SBATCH -a 1-8\nSIZE=$((4000 / SLURM_ARRAY_TASK_COUNT))\n", [4]),
    ("array-count", "a message"): (HEAD + '#SBATCH -a 1-8\necho "1 of $SLURM_ARRAY_TASK_COUNT"\n', []),
    ("directory-exists", "a name"): (HEAD + "mkdir out/logs\n", [3]),
    ("directory-exists", "-p"): (HEAD + "mkdir -p out/logs\nmkdir $SLURM_JOB_ID\n", []),
    ("directory-exists", "if it is absent"): (HEAD + "[ -d logs ] || mkdir logs\n", []),
    ("directory-exists", "after rm"): (HEAD + "rm -rf logs\nmkdir logs\n", []),
    ("setting-of-first-node", "a daemon"): (
        HEAD + "#SBATCH -N 2\nnvidia-cuda-mps-control -d\nsrun -n 8 python t.py\n",
        [4],
    ),
    ("setting-of-first-node", "a query"): (HEAD + "#SBATCH -N 2\nnvidia-smi -L\nsrun -n 8 python t.py\n", []),
    ("setting-of-first-node", "each node"): (
        HEAD + "#SBATCH -N 2\nsrun -n 2 dcgmi profile --pause\nsrun -n 8 python t.py\n",
        [],
    ),
    ("setting-of-first-node", "one node"): (HEAD + "#SBATCH -N 1\nsudo nvidia-smi -pm 1\nsrun python t.py\n", []),
    ("variable-unset", "a name and an array"): (
        HEAD + "cd $wrk/data\npython t.py ${FILES[$SLURM_ARRAY_TASK_ID]}\n",
        [3, 4],
    ),
    ("variable-unset", "an option of the same name"): (HEAD + "head -n 1 a.txt\ncd $n/data\n", [4]),
    ("variable-unset", "names that are set"): (
        HEAD + "for f in a b; do echo $f; done\nread -r g < h\nwhile getopts x o; do echo $o $g; done\nl=(a b)\n"
        "echo ${l[0]} ${x:-1} ${BASH_SOURCE[0]} $HOME \\$y '$z' $(awk '{print $v}' a)\n",
        [],
    ),
    ("variable-unset", "a comment"): (HEAD + "# sbatch --export=size=1b job.sh\ncd $size; curl -x $http_proxy a\n", []),
    ("variable-unset", "a file that can set the names"): (HEAD + ". settings.sh\ncd $dir\n", []),
    ("option-without-value", "that sbatch rejects"): (
        HEAD + "#SBATCH --partition=\n#SBATCH --ntasks-per-node=\n#SBATCH --nodelist=\n#SBATCH --mail-type=\n",
        [3, 4, 5, 6],
    ),
    ("option-without-value", "a blank before any value"): (
        HEAD + "#SBATCH --job-name= a\n#SBATCH --account=\n#SBATCH --comment=a=b -N 2\n",
        [3, 4],
    ),
    ("option-without-value", "an option that accepts none"): (HEAD + "#SBATCH --requeue=\n", [3]),
    ("option-without-value", "an option of a plugin"): (HEAD + "#SBATCH --uenv=\n", []),
    ("variable-never-set", "with another variable as default"): (
        HEAD + "a=$(hostname)\na=${MASTER_ADDR:-$a}\nb=${MASTER_ADDR}\n",
        [5],
    ),
    ("gpus-hidden", "shared by the tasks"): (
        HEAD + "#SBATCH -n 4 --gpus-per-task=1\nsrun --gres-flags=allow-task-sharing python t.py\n",
        [],
    ),
    ("gpus-hidden", "without a step"): (HEAD + "#SBATCH -n 4 --gpus-per-task=1\ntorchrun t.py\n", []),
    ("no-environment", "of a project"): (HEAD + "srun uv run python t.py\n", []),
    ("port-fixed", "all GPUs of a node"): (HEAD + "#SBATCH --gres=gpu:8\nMASTER_PORT=1234 python t.py\n", []),
    ("environment-as-option", "of pyxis"): (HEAD + "#SBATCH --container-image=a.sqsh\npython t.py\n", []),
    ("old-name", "next to the new name"): (HEAD + "export TRANSFORMERS_CACHE=/a HF_HUB_CACHE=/a\n", []),
    ("srun-cores", "the whole command in a variable"): (HEAD + '#SBATCH -c 4\nS="srun -n 2"\n$S python t.py\n', [5]),
    ("srun-cores", "a command with cores in a variable"): (HEAD + '#SBATCH -c 4\nS="srun -c 4"\n$S python t.py\n', []),
    ("srun-cores", "a command with two values"): (
        HEAD + '#SBATCH -c 4\nif a; then\n  S="srun torchrun"\nelse\n  S=torchrun\nfi\n${S} t.py\n',
        [5],
    ),
    ("srun-cores", "a binding that is only printed"): (
        HEAD + "#SBATCH -c 4\nsrun --cpu_bind=v --accel-bind=g python t.py\nsrun --cpu-bind=verbose ./t.sh\n",
        [4, 5],
    ),
    ("srun-cores", "a binding"): (
        HEAD + "#SBATCH -c 4\nsrun --cpu-bind=v,cores python t.py\nsrun --cpu-bind=$B ./t.sh\n",
        [],
    ),
    ("srun-cores", "-c of another program"): (
        HEAD + "#SBATCH -c 4 --gpus-per-task=1\nP=$(echo $SLURM_JOB_ID | tail -c 4)\nsrun python t.py\n",
        [5],
    ),
    ("failure-hidden", "a launcher in each branch"): (
        HEAD + 'if a; then\n  L="srun torchrun"\nelse\n  L=torchrun\nfi\n$L t.py | tee log\n',
        [8],
    ),
    ("failure-hidden", "a launcher in one branch"): (
        HEAD + 'if a; then\n  L="srun torchrun"\nelse\n  L=echo\nfi\n$L t.py | tee log\n',
        [],
    ),
    ("node-rank-for-all", "in a command of another shell"): (
        HEAD + '#SBATCH -N 1 -n 4\nC="python t.py --rank $SLURM_PROCID"\nsrun bash -c "$C"\n',
        [4],
    ),
    ("node-rank-for-all", "with a backslash or in single quotes"): (
        HEAD + '#SBATCH -n 4\nC="python t.py --rank \\$SLURM_PROCID"\nsrun bash -c "$C"\n'
        "D='python t.py --rank $SLURM_PROCID'\nsrun bash -c \"$D\"\n",
        [],
    ),
    ("node-rank-for-all", "of an unknown number of nodes"): (
        HEAD + 'L="accelerate launch --num_machines $N --machine_rank $SLURM_PROCID"\nsrun bash -c "$L t.py"\n',
        [3],
    ),
    ("output-of-requeue", "truncated"): (HEAD + "#SBATCH --requeue -o %j.out\npython t.py\n", [3]),
    ("output-of-requeue", "appended"): (HEAD + "#SBATCH --requeue --open-mode=append\npython t.py\n", []),
    ("cores-of-no-gpu", "no GPUs"): (HEAD + "#SBATCH --cpus-per-gpu=8 --exclusive\nsrun python t.py\n", [3]),
    ("cores-of-no-gpu", "GPUs"): (HEAD + "#SBATCH --cpus-per-gpu=8 --gres=gpu:2\nsrun python t.py\n", []),
    ("variable-unset-strict", "a path"): (
        HEAD + "set -euo pipefail\nsource e/bin/activate\nexport LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH\n"
        "export PYTHONPATH=${PYTHONPATH}:/b\n",
        [5, 6],
    ),
    ("variable-unset-strict", "a path that is set"): (
        HEAD
        + "set -u\nexport CPATH=${CPATH:-}:/a\nexport LD_LIBRARY_PATH=/a\nexport LD_LIBRARY_PATH=/b:$LD_LIBRARY_PATH\n",
        [],
    ),
    ("variable-unset-strict", "after a module"): (HEAD + "set -u\nml cuda\nexport CPATH=/a:$CPATH\n", []),
    ("variable-unset-strict", "without set -u"): (HEAD + "set -e\nexport CPATH=/a:$CPATH\n", []),
    ("unknown-slurm-variable", "a name without SLURM_"): (
        HEAD + "N=$((SLURM_NNODES * GPUS_PER_NODE))\nM=$(( $NTASKS / 2 ))\n",
        [3, 4],
    ),
    ("unknown-slurm-variable", "a name that the script sets"): (
        HEAD + "GPUS_PER_NODE=4\nN=$((SLURM_NNODES * GPUS_PER_NODE))\nfor NNODES in 1 2; do echo $((NNODES)); done\n"
        "read -r NTASKS < a\necho $((NTASKS * ${CPUS_PER_TASK:-1}))\n",
        [],
    ),
    ("unknown-slurm-variable", "a name that a file can set"): (HEAD + ". ./settings.sh\nN=$((NNODES * 4))\n", []),
    ("threads-of-node", "all CPUs"): (
        HEAD + "export OMP_NUM_THREADS=$(nproc --all)\nOMP_NUM_THREADS=`lscpu -p`\n",
        [3, 4],
    ),
    ("threads-of-node", "those of the job"): (HEAD + "export OMP_NUM_THREADS=$(nproc)\n", []),
    ("threads-of-node", "all CPUs of the job's nodes"): (
        HEAD + "#SBATCH --exclusive\nOMP_NUM_THREADS=$(nproc --all)\n",
        [],
    ),
    ("port-unread", "accelerate"): (HEAD + "MASTER_PORT=$P\naccelerate launch --num_processes 2 t.py $ARGS\n", [4]),
    ("port-unread", "accelerate with its option"): (
        HEAD + "MASTER_PORT=$P\naccelerate launch --main_process_port $MASTER_PORT t.py\n",
        [],
    ),
}


@pytest.mark.parametrize(("rule", "case"), PITFALLS)
def test_pitfall_is_found_only_in_its_form(cli: Cli, write: Write, rule: str, case: str) -> None:
    text, lines = PITFALLS[rule, case]

    assert [line for line, _ in of_rule(cli, write, text, rule)] == lines


@pytest.mark.parametrize(
    ("rule", "text", "severity"),
    [
        ("failure-hidden", "{}#SBATCH --gpus=2\nfor a in 1 2; do\n  srun python t.py $a | tee $a.log\ndone\n", "hint"),
        (
            "failure-hidden",
            "{}#SBATCH --gpus=2\nset -e\nfor a in 1 2; do\n  srun python t.py $a | tee $a.log\ndone\n",
            "warning",
        ),
        ("failure-hidden", "{}#SBATCH --gpus=2\npython t.py\necho Training complete\necho ----\n", "warning"),
        ("failure-hidden", "{}#SBATCH --gpus=2\npython t.py\necho Finished with code $?\n", "hint"),
        ("failure-hidden", "{}#SBATCH --gpus=2\nfor a in 1 2; do\n  python t.py $a\ndone\necho done\n", "hint"),
        ("failure-hidden", "{}#SBATCH --gpus=2\npython a.py\npython b.py\n", "hint"),
        ("array-copied", "{}nodes=($(cat hosts))\nall_nodes=($nodes)\necho ${{all_nodes[$i]}}\n", "error"),
        ("array-copied", "{}nodes=($(cat hosts))\nall_nodes=($nodes)\necho ${{all_nodes[0]}}\n", "hint"),
        ("failure-hidden", "{}#SBATCH --mail-type=END,FAIL\nsrun torchrun t.py\ndate\n", "warning"),
        ("failure-hidden", "{}#SBATCH --mail-type=BEGIN\nsrun torchrun t.py\ndate\n", "hint"),
        (
            "failure-hidden",
            "{}#SBATCH --mail-type=all\nfor a in 1 2; do\n  srun torchrun t.py $a\ndone\necho done\n",
            "hint",
        ),
        ("failure-hidden", "{}#SBATCH --exclusive\npython t.py\ndate\n", "hint"),
        ("directory-exists", "{}set -euo pipefail\nmkdir logs\n", "warning"),
        ("directory-exists", "{}mkdir logs\nset -e\n", "hint"),
        (
            "rank-before-step",
            '{}srun -N 1 bash -c "torchrun --nnodes=$N --node_rank=$SLURM_NODEID --master_addr=$M t.py"\n',
            "hint",
        ),
        ("kill-by-pattern", "{}#SBATCH --exclusive\npkill python\n", "hint"),
        ("kill-by-pattern", "{}#SBATCH --gres=gpu:4\npkill python\n", "hint"),
        ("kill-by-pattern", "{}#SBATCH --gres=gpu:2\npkill python\n", "warning"),
        ("address-not-exported", "{}source e.sh\nM=a\nsrun bash -c 'python $M'\n", "hint"),
        ("address-not-exported", "{}source e/bin/activate\nM=a\nsrun bash -c 'python $M'\n", "warning"),
        ("idle-gpus", "{}#SBATCH --gpus=4\nvllm serve m\n", "warning"),
        ("arguments-in-quotes", '{}bash -c "python t.py $@"\n', "warning"),
        ("arguments-in-quotes", '{}bash -c "python t.py ${{A[@]}}"\n', "hint"),
        ("conda-without-hook", "{}set -e\nmodule load cuda/12.1 gcc\nconda activate a\n", "warning"),
        ("conda-without-hook", "{}set -e\nmodule load cuda/12.1 miniforge3\nconda activate a\n", "hint"),
        ("option-without-value", "{}#SBATCH --mail-user=\n", "hint"),
        ("option-without-value", "{}#SBATCH --output=\n", "error"),
        ("option-without-value", "{}#SBATCH --requeue=\n", "hint"),
        ("option-repeated", "{}#SBATCH --mail-type=END\n#SBATCH --mail-type=FAIL\n", "hint"),
        ("options-in-conflict", "{}#SBATCH --gpus-per-node=2 --gres=gpu:2\n", "hint"),
        ("output-pattern", "{}#SBATCH --output=%q.out\n", "warning"),
        ("output-pattern", "{}#SBATCH --output=%x-%r.out\n", "hint"),
        ("option-without-value", "{}#SBATCH --job-name= a\n", "error"),
    ],
)
def test_severity_depends_on_the_rest_of_the_script(
    cli: Cli, write: Write, rule: str, text: str, severity: str
) -> None:
    assert [found for _, found in of_rule(cli, write, text.format(HEAD), rule)] == [severity]


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("logs/%x/%x-%j.out", "logs/%x-%j.out"),
        ("logs/%x/%j/out.txt", "logs/%x-%j-out.txt"),
        ("%A/%a.out", "%A-%a.out"),
    ],
)
def test_fix_for_a_directory_with_a_pattern_repeats_no_pattern(cli: Cli, write: Write, path: str, fix: str) -> None:
    file = write("job.sh", HEAD + f"#SBATCH --output={path}\nls\n")

    (row,) = json.loads(cli("check", "--all", "--json", "--select", "output-folder", file).stdout)

    assert row["fix"].partition(", ")[0] == f"#SBATCH --output={fix}"
