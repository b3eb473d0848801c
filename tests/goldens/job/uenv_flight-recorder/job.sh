#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=g123
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=4      # one rank for each GPU
#SBATCH --cpus-per-task=72
#SBATCH --gpus-per-node=4        # each rank sees all GPUs and uses device LOCAL_RANK
#SBATCH --uenv=pytorch/v2.6.0:v1
#SBATCH --view=default
#SBATCH --output=slurm-%x-%j.log # all ranks, each line with its task
command=(python train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system clariden --recipe pytorch-2.6 --account g123 --workaround flight-recorder -- python train.py --lr 0.1

set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.
# `uenvtool explain NAME` explains a variable.
# [torch-recorder]  PyTorch, flight recorder, headers of torch 2.6 to 2.10, 2026-01
# [docs-2026]       CSCS documentation (NCCL, MPI, NVSHMEM, PyTorch, extended images), 2026-08
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
# workaround flight-recorder: a job with torch 2.8 or newer hangs in a collective, and the log does not name the rank
# that it waits for [torch-recorder]
export TORCH_FR_BUFFER_SIZE=2000
# workaround flight-recorder: a job with torch 2.8 or newer hangs in a collective, and the log does not name the rank
# that it waits for [torch-recorder]
export TORCH_NCCL_DUMP_ON_TIMEOUT=1
# Not set (only with NCCL 2.27 or newer, but pytorch-2.6 has 2.26.2-1): NCCL_PROTO, NCCL_P2P_LEVEL, NCCL_NET_GDR_C2C,
# NCCL_NET_GDR_READ, NCCL_NCHANNELS_PER_NET_PEER
# Not set (only with NCCL 2.29 or newer and with libfabric 2.4 or newer, but pytorch-2.6 has 2.26.2-1 and 1.15.2.0):
# FI_PROVIDER, FI_CXI_RDZV_PROTO, FI_CXI_RDZV_EAGER_SIZE, FI_CXI_RDZV_GET_MIN, FI_CXI_RDZV_THRESHOLD
# export NCCL_DEBUG=INFO # NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it

export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
# workaround flight-recorder: a job with torch 2.8 or newer hangs in a collective, and the log does not name the rank
# that it waits for [torch-recorder]
export TORCH_FR_DUMP_TEMP_FILE="$PWD/$LOGS/flight_rank_"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
# --cpu-bind: the 72 cores of a module form one socket, next to its GPU
srun -l -c "$SLURM_CPUS_PER_TASK" --cpu-bind=sockets bash -c '
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"
  trap : TERM USR1 # Slurm also sends the signal to the rank; this shell waits for its end
  "$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/rank-$RANK.log")
  exit "${PIPESTATUS[0]}"' rank "${command[@]}"
