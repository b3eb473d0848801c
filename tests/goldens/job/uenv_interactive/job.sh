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
  --uenv=pytorch/v2.6.0:v1
  --view=default
  --mem=0
)
command=(bash)
# Written by uenvtool. To write it again: uenvtool job --system clariden --recipe pytorch-2.6 --account g123 --option=--mem=0 --interactive

on_node() {
set -e
ulimit -c 0 # no core dumps

# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.
# `uenvtool explain NAME` explains a variable.
# [docs-2026]  CSCS documentation (NCCL, MPI, NVSHMEM, PyTorch, extended images), 2026-08
# set by uenvtool to the cores of a rank (torchrun would set 1); use fewer if data loaders fork
# [torch/distributed/run.py]
export OMP_NUM_THREADS="${OMP_NUM_THREADS-72}"
export NCCL_NET="${NCCL_NET-AWS Libfabric}"    # prevents a fallback of NCCL to TCP [docs-2026]
# NCCL_NET selects the plugin, and NCCL_NET_PLUGIN=ofi makes NCCL fail at startup [docs-2026]
unset NCCL_NET_PLUGIN
export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL-PHB}" # lets the NIC access GPU memory directly [docs-2026]
export NCCL_CROSS_NIC="${NCCL_CROSS_NIC-1}"    # lets rings use several NICs of a node [docs-2026]
# provides space for the completions of many peers [docs-2026]
export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE-131072}"
# this is libfabric's maximum. For larger values (CSCS set 32768 until 2025-11), libfabric uses its default of 512 or
# 1024 [docs-2026]
[ "${FI_CXI_DEFAULT_TX_SIZE:-none}" -le 16384 ] 2>/dev/null || export FI_CXI_DEFAULT_TX_SIZE=16384
# host memory that libfabric registers with CUDA can cause a deadlock with NCCL [docs-2026]
export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER-1}"
# hardware matching runs out of entries at scale [docs-2026]
export FI_CXI_RX_MATCH_MODE="${FI_CXI_RX_MATCH_MODE-software}"
# memhooks, the default without kdreg2, can hang [docs-2026]
export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR-userfaultfd}"
# GPU-aware MPI can deadlock with NCCL. Clusters preset the value 1 [docs-2026]
export MPICH_GPU_SUPPORT_ENABLED=0
# keeps kernels that are compiled at run time off the shared filesystem [docs-2026]
export CUDA_CACHE_DISABLE="${CUDA_CACHE_DISABLE-1}"
# a failure ends the job, as with 3, and 1 also aborts NCCL [docs-2026]
export TORCH_NCCL_ASYNC_ERROR_HANDLING="${TORCH_NCCL_ASYNC_ERROR_HANDLING-1}"
export TRITON_HOME="${TRITON_HOME-/dev/shm/}"  # keeps Triton's files off the shared filesystem [docs-2026]
# Not set (only with NCCL 2.27 or newer, but pytorch-2.6 has 2.26.2-1): NCCL_PROTO, NCCL_P2P_LEVEL, NCCL_NET_GDR_C2C,
# NCCL_NET_GDR_READ, NCCL_NCHANNELS_PER_NET_PEER
# Not set (only with NCCL 2.29 or newer and with libfabric 2.4 or newer, but pytorch-2.6 has 2.26.2-1 and 1.15.2.0):
# FI_PROVIDER, FI_CXI_RDZV_PROTO, FI_CXI_RDZV_EAGER_SIZE, FI_CXI_RDZV_GET_MIN, FI_CXI_RDZV_THRESHOLD
# export NCCL_DEBUG=INFO # NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it

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
exec srun "${options[@]}" --cpu-bind=none --pty bash -c "$(declare -f on_node); on_node \"\$@\"" shell "${command[@]}"
