#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=g123
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=4      # one rank for each GPU
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-node=4        # each rank sees all; its own is device LOCAL_RANK
#SBATCH --chdir=/a/w
#SBATCH --output=slurm-%x-%j.log # all ranks, each line with its task
command=(python train.py --lr 0.1)
# Made by uenvtool, again: uenvtool job --system clariden --runtime ce --image 'nvcr.io#nvidia/pytorch:25.06-py3' --account g123 --mount /data/a:/a --env HF_TOKEN --env HF_HOME=/a/x --workdir /a/w -- python train.py --lr 0.1

set -e      # a step that fails ends the job with its exit code
ulimit -c 0 # no core dumps, one from each rank that crashes

# job.toml has the container's variables: what is set here, srun would hand on into it.
export HF_TOKEN="${HF_TOKEN:?export it before you start the job}" # --env: its value is in no file
export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the output of each rank
export PYTHONUNBUFFERED=1 # whole lines, at once
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, as this script does
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # the job's own: two jobs on a node do not meet
export NNODES="$SLURM_NNODES"
# --cpu-bind: each module's 72 cores are a socket, beside its GPU
srun -l -c "$SLURM_CPUS_PER_TASK" --cpu-bind=sockets \
  --environment="$SLURM_SUBMIT_DIR"/job.toml bash -c '
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"
  trap : TERM USR1 # the rank gets the signal too; this shell waits for its end
  "$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/rank-$RANK.log")
  exit "${PIPESTATUS[0]}"' rank "${command[@]}"
