#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=p
#SBATCH --partition=batch
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=8        # one rank for each GPU
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-task=1          # each rank sees only its own GPU as device 0, and LOCAL_RANK is 0
#SBATCH --gpu-bind=closest         # the die next to the 7 cores of each rank
#SBATCH --output=slurm-%x-%j.log   # all ranks, each line with its task
#SBATCH --network=disable_rdzv_get # FI_CXI_RDZV_PROTO=alt_read needs it
command=(env/bin/python train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system frontier --runtime modules --account p -- env/bin/python train.py --lr 0.1

set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

module reset || module purge # reset fails if the site has no default modules
module load PrgEnv-gnu/8.7.0
module load cpe/26.03
module load miniforge3/23.11.0-0
module load rocm/7.1.1
module load rccl-net-plugin
module load craype-accel-amd-gfx90a

# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.
# `uenvtool explain NAME` explains a variable.
# [hpe]        HPE, ccl_env.sh of shs-ccl-docs (NCCL and RCCL on Slingshot), 2026-04-10
# [frontier]   OLCF, PyTorch on Frontier (MI250X), settings of rccl-net-plugin on more than one node, 2026-07-07
# [docs-2026]  CSCS documentation (NCCL, MPI, NVSHMEM, PyTorch, extended images), 2026-08
# set by uenvtool to the cores of a rank (torchrun would set 1); use fewer if data loaders fork
# [torch/distributed/run.py]
export OMP_NUM_THREADS="${OMP_NUM_THREADS-7}"
# prevents a fallback of RCCL to TCP. On a single node, the network is not configured [frontier]
export NCCL_NET="${NCCL_NET-OFI}"
export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL-PHB}" # lets the NIC access GPU memory directly [docs-2026]
export NCCL_CROSS_NIC="${NCCL_CROSS_NIC-1}"   # lets rings use several NICs of a node [docs-2026]
# provides space for the completions of many peers [docs-2026]
export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE-131072}"
# host memory that libfabric registers with CUDA can cause a deadlock with NCCL [docs-2026]
export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER-1}"
# kdreg2 is the site's default and works with the plugin. memhooks deadlocks [frontier]
export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR-kdreg2}"
export HSA_FORCE_FINE_GRAIN_PCIE="${HSA_FORCE_FINE_GRAIN_PCIE-1}" # lets the NIC access GPU memory [hpe]
# MIOpen's database fails with disk I/O errors if all ranks share it on a network filesystem [frontier]
export MIOPEN_USER_DB_PATH="${MIOPEN_USER_DB_PATH-/tmp/$USER-$SLURM_JOB_ID}"
# MIOpen's kernels are stored on the node, like its database [frontier]
export MIOPEN_CUSTOM_CACHE_DIR="${MIOPEN_CUSTOM_CACHE_DIR-/tmp/$USER-$SLURM_JOB_ID}"
# a failure ends the job, as with 3, and 1 also aborts NCCL [docs-2026]
export TORCH_NCCL_ASYNC_ERROR_HANDLING="${TORCH_NCCL_ASYNC_ERROR_HANDLING-1}"
# selects the interfaces of the high-speed network [hpe]
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME-hsn0,hsn1,hsn2,hsn3}"
export FI_CXI_DEFAULT_TX_SIZE="${FI_CXI_DEFAULT_TX_SIZE-2048}" # HPE recommends this value [hpe]
export FI_CXI_RX_MATCH_MODE="${FI_CXI_RX_MATCH_MODE-hybrid}" # matches in hardware and falls back to software [hpe]
export FI_CXI_RDZV_PROTO="${FI_CXI_RDZV_PROTO-alt_read}" # the receiver reads large messages [hpe]
export FI_CXI_RDZV_EAGER_SIZE="${FI_CXI_RDZV_EAGER_SIZE-0}" # disables eager messages [hpe]
export FI_CXI_RDZV_GET_MIN="${FI_CXI_RDZV_GET_MIN-0}" # disables eager messages [hpe]
export FI_CXI_RDZV_THRESHOLD="${FI_CXI_RDZV_THRESHOLD-0}" # disables eager messages [hpe]
# export NCCL_DEBUG=INFO # NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it

export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
srun -l -c "$SLURM_CPUS_PER_TASK" --cpu-bind=cores bash -c '
  export LD_LIBRARY_PATH=${CRAY_LD_LIBRARY_PATH}:$LD_LIBRARY_PATH
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"
  export LOCAL_RANK=0 # the rank sees only one GPU
  trap : TERM USR1 # Slurm also sends the signal to the rank; this shell waits for its end
  "$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/rank-$RANK.log")
  exit "${PIPESTATUS[0]}"' rank "${command[@]}"
