#!/bin/bash
# @PODS@ pods of @RANKS@ GPUs; each pod runs this script. Submit: @SUBMIT@
command=(@COMMAND@)
# Written by uenvtool. To write it again: @AGAIN@

source "${BASH_SOURCE[0]%/*}/@ACTIVATION@" # sets the variables for RoCE and NCCL
export NNODES="${PET_NNODES:-1}" NODE_RANK="${RANK:-0}" GPUS="${RUNAI_NUM_OF_GPUS:-@RANKS@}"
export MASTER_ADDR="${MASTER_ADDR:-localhost}" MASTER_PORT="${MASTER_PORT:-29500}" LOGS=logs PYTHONUNBUFFERED=1
if [ "$NNODES" -gt 1 ] && [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
  echo "no RoCE device in this pod: submit with @FLAGS@" >&2
  exit 1
fi
set -e      # the pod ends with the exit code of the command
ulimit -c 0 # no core dumps
@INSIDE@mkdir -p "$LOGS"
@PROGRAM@"${command[@]}"
