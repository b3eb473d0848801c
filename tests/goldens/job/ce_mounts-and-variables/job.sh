#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=g123
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=4      # one rank for each GPU
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-node=4        # each rank sees all GPUs and uses device LOCAL_RANK
#SBATCH --chdir=/a/w
#SBATCH --output=slurm-%x-%j.log # all ranks, each line with its task
command=(python train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system clariden --runtime ce --image 'nvcr.io#nvidia/pytorch:25.06-py3' --account g123 --mount /data/a:/a --env HF_TOKEN --env HF_HOME=/a/x --workdir /a/w -- python train.py --lr 0.1

set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

# job.toml contains the variables of the container, because srun would pass variables from here into it.
export HF_TOKEN="${HF_TOKEN:?export it before you start the job}" # --env: no file contains its value
export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
# --cpu-bind: the 72 cores of a module form one socket, next to its GPU
srun -l -c "$SLURM_CPUS_PER_TASK" --cpu-bind=sockets \
  --environment="$SLURM_SUBMIT_DIR"/job.toml bash -c '
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"
  trap : TERM USR1 # Slurm also sends the signal to the rank; this shell waits for its end
  "$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/rank-$RANK.log")
  exit "${PIPESTATUS[0]}"' rank "${command[@]}"
