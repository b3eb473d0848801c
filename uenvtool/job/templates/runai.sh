#!/bin/bash
# @PODS@ pods of @RANKS@ GPUs; this runs in each. Submit: @SUBMIT@
command=(@COMMAND@)
# Made by uenvtool, again: @AGAIN@

source "${BASH_SOURCE[0]%/*}/@ACTIVATION@" # RoCE and NCCL, with a reason for each variable
if [ "${PET_NNODES:-1}" -gt 1 ] && [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
  echo "no RoCE device in this pod: submit with @FLAGS@" >&2
  exit 1
fi
set -e      # the exit code of torchrun is that of the pod
ulimit -c 0 # no core dumps
@INSIDE@torchrun --nnodes="${PET_NNODES:-1}" --node-rank="${RANK:-0}" --nproc-per-node="${RUNAI_NUM_OF_GPUS:-@RANKS@}" \
  --rdzv-backend=c10d --rdzv-endpoint="${MASTER_ADDR:-localhost}:${MASTER_PORT:-29500}" --max-restarts=0 \
  --log-dir=@FOLDER@ --tee=3 "${command[@]}"
