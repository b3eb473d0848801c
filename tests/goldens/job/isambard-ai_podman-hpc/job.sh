#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=1        # torchrun starts the ranks
#SBATCH --cpus-per-task=288
#SBATCH --gpus-per-node=4          # each rank sees all GPUs and uses device LOCAL_RANK
#SBATCH --output=slurm-%x-%j.log   # all ranks, each line with its task
#SBATCH --network=disable_rdzv_get # FI_CXI_RDZV_PROTO=alt_read needs it
command=(train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system isambard-ai --runtime podman-hpc --image nvcr.io/a:1 --env HF_TOKEN -- python train.py --lr 0.1

set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

image=nvcr.io/a:1
binds=() # the paths of --mount

# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.
# `uenvtool explain NAME` explains a variable.
# [isambard]   BriCS, NCCL guide of Isambard-AI (GH200), env_vars.sh, 2026
# [hpe]        HPE, ccl_env.sh of shs-ccl-docs (NCCL and RCCL on Slingshot), 2026-04-10
# [sigma2]     Sigma2 documentation, NCCL modules on Olivia (GH200), 2026-05-13
# [docs-2026]  CSCS documentation (NCCL, MPI, NVSHMEM, PyTorch, extended images), 2026-08
# set by uenvtool to the cores of a rank (torchrun would set 1); use fewer if data loaders fork
# [torch/distributed/run.py]
export OMP_NUM_THREADS="${OMP_NUM_THREADS-72}"
# prevents a fallback of NCCL to TCP. HPE advises against it on a single node [hpe]
export NCCL_NET="${NCCL_NET-AWS Libfabric}"
# NCCL_NET selects the plugin, and NCCL_NET_PLUGIN=ofi makes NCCL fail at startup [docs-2026]
unset NCCL_NET_PLUGIN
export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL-PHB}" # lets the NIC access GPU memory directly [docs-2026]
export NCCL_CROSS_NIC="${NCCL_CROSS_NIC-1}"    # lets rings use several NICs of a node [docs-2026]
export NCCL_PROTO="${NCCL_PROTO-^LL128}"       # LL128 corrupts data on GH200 over Slingshot [sigma2]
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
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME-hsn}" # selects the interfaces of the high-speed network [isambard]
# sets the minimum number of channels. The best value may depend on the application [isambard]
export NCCL_MIN_NCHANNELS="${NCCL_MIN_NCHANNELS-4}"
export NCCL_GDRCOPY_ENABLE="${NCCL_GDRCOPY_ENABLE-1}" # NCCL writes flags to GPU memory with GDRCopy [isambard]
export NCCL_NET_FORCE_FLUSH="${NCCL_NET_FORCE_FLUSH-0}" # avoids flushes that the GPU does not need [isambard]
export FI_HMEM_CUDA_USE_GDRCOPY="${FI_HMEM_CUDA_USE_GDRCOPY-1}" # libfabric copies GPU memory with GDRCopy [isambard]
# avoids a copy of small messages in host memory [isambard]
export FI_CXI_DISABLE_NON_INJECT_MSG_IDC="${FI_CXI_DISABLE_NON_INJECT_MSG_IDC-1}"
# HPE recommends this value. The best value may depend on the application [isambard]
export FI_CXI_DEFAULT_TX_SIZE="${FI_CXI_DEFAULT_TX_SIZE-2048}"
# matches in hardware and falls back to software [isambard]
export FI_CXI_RX_MATCH_MODE="${FI_CXI_RX_MATCH_MODE-hybrid}"
export FI_CXI_RDZV_PROTO="${FI_CXI_RDZV_PROTO-alt_read}" # the receiver reads large messages [isambard]
export FI_CXI_RDZV_EAGER_SIZE="${FI_CXI_RDZV_EAGER_SIZE-0}" # disables eager messages [isambard]
export FI_CXI_RDZV_GET_MIN="${FI_CXI_RDZV_GET_MIN-0}" # disables eager messages [isambard]
export FI_CXI_RDZV_THRESHOLD="${FI_CXI_RDZV_THRESHOLD-0}" # disables eager messages [isambard]
export HF_TOKEN="${HF_TOKEN:?export it before you start the job}" # --env: no file contains its value
# export NCCL_DEBUG=INFO # NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it

export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
srun -l -c "$SLURM_CPUS_PER_TASK" --cpu-bind=none --mpi=pmi2 \
  podman-hpc run --rm --network=host --ipc=host --gpu --openmpi-pmi2 \
  --volume="$PWD:$PWD" --workdir="$PWD" "${binds[@]/#/--volume=}" \
  -e "SLURM*" -e "NCCL_*" -e "FI_*" -e "TORCH_*" -e "MASTER_*" -e "NNODES" -e "LOGS" -e "PYTHONUNBUFFERED" -e "OMP_NUM_THREADS" -e "CUDA_CACHE_DISABLE" -e "HF_TOKEN" \
  "$image" bash -c '
  export NODE_RANK="$SLURM_NODEID" TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="[rank \${rank}] "
  exec torchrun --nnodes="$NNODES" --nproc-per-node=4 --rdzv-backend=c10d \
    --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
    --log-dir="$LOGS" --tee=3 "$@"' torchrun "${command[@]}"
