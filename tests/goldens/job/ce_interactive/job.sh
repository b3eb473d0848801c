#!/bin/bash
# `bash job.sh` waits for a node and opens a shell there with the settings of a job. `exit` releases the node.
options=(
  --job-name=interactive
  --account=g123
  --nodes=1
  --time=01:00:00
  --ntasks-per-node=1 # the shell
  --cpus-per-task=288
  --gpus-per-node=4   # each rank sees all GPUs and uses device LOCAL_RANK
)
command=(bash)
# Written by uenvtool. To write it again: uenvtool job --system clariden --runtime ce --image 'nvcr.io#nvidia/pytorch:25.06-py3' --account g123 --env HF_TOKEN --interactive

on_node() {
set -e
ulimit -c 0 # no core dumps

export HF_TOKEN="${HF_TOKEN:?export it before you start the job}" # --env: no file contains its value
export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
export NODE_RANK=0
exec bash -c '
  exec "$@"' shell "$@"
}
exec srun "${options[@]}" --cpu-bind=none \
  --environment=./job.toml --pty bash -c "$(declare -f on_node); on_node \"\$@\"" shell "${command[@]}"
