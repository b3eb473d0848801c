#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=p
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=4      # one rank for each GPU
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4        # each rank sees all GPUs and uses device LOCAL_RANK
#SBATCH --output=slurm-%x-%j.log # all ranks, each line with its task
#SBATCH --constraint=gpu         # nodes with GPUs; gpu&hbm80g selects those with 80 GB per GPU
command=(python train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system perlmutter --launcher srun --account p -- python train.py --lr 0.1

set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

image=nersc/pytorch:25.02.01
binds=() # the paths of --mount

# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.
# `uenvtool explain NAME` explains a variable.
# [nersc]      NERSC, settings of podman-hpc --nccl on Perlmutter (A100), 2025-05
# [hpe]        HPE, ccl_env.sh of shs-ccl-docs (NCCL and RCCL on Slingshot), 2026-04-10
# [docs-2026]  CSCS documentation (NCCL, MPI, NVSHMEM, PyTorch, extended images), 2026-08
# set by uenvtool to the cores of a rank (torchrun would set 1); use fewer if data loaders fork
# [torch/distributed/run.py]
export OMP_NUM_THREADS="${OMP_NUM_THREADS-32}"
# prevents a fallback of NCCL to TCP. HPE advises against it on a single node [hpe]
export NCCL_NET="${NCCL_NET-AWS Libfabric}"
# NCCL_NET selects the plugin, and NCCL_NET_PLUGIN=ofi makes NCCL fail at startup [docs-2026]
unset NCCL_NET_PLUGIN
export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL-PHB}" # lets the NIC access GPU memory directly [docs-2026]
export NCCL_CROSS_NIC="${NCCL_CROSS_NIC-1}"    # lets rings use several NICs of a node [docs-2026]
# provides space for the completions of many peers [docs-2026]
export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE-131072}"
# host memory that libfabric registers with CUDA can cause a deadlock with NCCL [docs-2026]
export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER-1}"
# memhooks, the default without kdreg2, can hang [docs-2026]
export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR-userfaultfd}"
# keeps kernels that are compiled at run time off the shared filesystem [docs-2026]
export CUDA_CACHE_DISABLE="${CUDA_CACHE_DISABLE-1}"
# a failure ends the job, as with 3, and 1 also aborts NCCL [docs-2026]
export TORCH_NCCL_ASYNC_ERROR_HANDLING="${TORCH_NCCL_ASYNC_ERROR_HANDLING-1}"
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME-hsn}" # selects the interfaces of the high-speed network [nersc]
# export NCCL_DEBUG=INFO # NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it

export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
# --cpu-bind: GPU 0 is next to the last NUMA node, and GPU 3 next to the first
srun -l -c "$SLURM_CPUS_PER_TASK" --cpu-bind=map_ldom:3,2,1,0 \
  shifter --image="$image" --module=gpu,nccl-plugin "${binds[@]/#/--volume=}" bash -c '
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"
  trap : TERM USR1 # Slurm also sends the signal to the rank; this shell waits for its end
  "$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/rank-$RANK.log")
  exit "${PIPESTATUS[0]}"' rank "${command[@]}"
