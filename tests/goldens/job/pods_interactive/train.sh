#!/bin/bash
# 1 pods of 4 GPUs; each pod runs this script. Submit: sh train.submit.sh
command=(sleep infinity)
# Written by uenvtool. To write it again: uenvtool job --system rcp --image registry.example/mlo:v1 --interactive --output train.sh

source "${BASH_SOURCE[0]%/*}/train.activate.sh" # sets the variables for RoCE and NCCL
export NNODES="${PET_NNODES:-1}" NODE_RANK="${RANK:-0}" GPUS="${RUNAI_NUM_OF_GPUS:-4}"
export MASTER_ADDR="${MASTER_ADDR:-localhost}" MASTER_PORT="${MASTER_PORT:-29500}" LOGS=logs PYTHONUNBUFFERED=1
if [ "$NNODES" -gt 1 ] && [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
  echo "no RoCE device in this pod: submit with --annotation k8s.v1.cni.cncf.io/networks=kube-system/roce --extended-resource rdma/rdma=1" >&2
  exit 1
fi
set -e      # the pod ends with the exit code of the command
ulimit -c 0 # no core dumps
mkdir -p "$LOGS"
"${command[@]}"
