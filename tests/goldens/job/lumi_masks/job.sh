#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=p
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=8      # one rank for each GPU
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8        # each rank sees all GPUs and uses device LOCAL_RANK
#SBATCH --output=slurm-%x-%j.log # all ranks, each line with its task
#SBATCH --mem-per-gpu=60G        # an eighth of the 480 GB per node that jobs can use
command=(python train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system lumi --launcher srun --account p -- python train.py --lr 0.1

set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

module reset || module purge # reset fails if the site has no default modules
module use /appl/local/laifs/modules
module load lumi-aif-singularity-bindings
image=/appl/local/laifs/containers/lumi-multitorch-u24r70f21m50t210-20260415_130625/lumi-multitorch-full-u24r70f21m50t210-20260415_130625.sif
binds=() # the paths of --mount
[ -e "$image" ] || { echo "missing on $(hostname): $image" >&2; exit 1; }

# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.
# `uenvtool explain NAME` explains a variable.
# [lumi]       LUMI AI Factory, containers with ROCm 7.0, issue 30, 2026-04-23
# [frontier]   OLCF, PyTorch on Frontier (MI250X), settings of rccl-net-plugin on more than one node, 2026-07-07
# [docs-2026]  CSCS documentation (NCCL, MPI, NVSHMEM, PyTorch, extended images), 2026-08
# set by uenvtool to the cores of a rank (torchrun would set 1); use fewer if data loaders fork
# [torch/distributed/run.py]
export OMP_NUM_THREADS="${OMP_NUM_THREADS-7}"
# NCCL_NET selects the plugin, and NCCL_NET_PLUGIN=ofi makes NCCL fail at startup [docs-2026]
unset NCCL_NET_PLUGIN
# multi-node jobs on ROCm 7.0 can hang if it is set. RCCL finds the level itself [lumi]
unset NCCL_NET_GDR_LEVEL
export NCCL_CROSS_NIC="${NCCL_CROSS_NIC-1}"   # lets rings use several NICs of a node [docs-2026]
# provides space for the completions of many peers [docs-2026]
export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE-131072}"
# host memory that libfabric registers with CUDA can cause a deadlock with NCCL [docs-2026]
export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER-1}"
# memhooks, the default without kdreg2, can hang [docs-2026]
export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR-userfaultfd}"
# MIOpen's database fails with disk I/O errors if all ranks share it on a network filesystem [frontier]
export MIOPEN_USER_DB_PATH="${MIOPEN_USER_DB_PATH-/tmp/$USER-$SLURM_JOB_ID}"
# MIOpen's kernels are stored on the node, like its database [frontier]
export MIOPEN_CUSTOM_CACHE_DIR="${MIOPEN_CUSTOM_CACHE_DIR-/tmp/$USER-$SLURM_JOB_ID}"
# a failure ends the job, as with 3, and 1 also aborts NCCL [docs-2026]
export TORCH_NCCL_ASYNC_ERROR_HANDLING="${TORCH_NCCL_ASYNC_ERROR_HANDLING-1}"
# export NCCL_DEBUG=INFO # NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it

export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
# --cpu-bind: the 7 cores next to each die, in the order of the dies
srun -l -c "$SLURM_CPUS_PER_TASK" --cpu-bind=mask_cpu:fe000000000000,fe00000000000000,fe0000,fe000000,fe,fe00,fe00000000,fe0000000000 \
  singularity exec "${binds[@]/#/--bind=}" "$image" bash -c '
  export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_STEP_NUM_TASKS" LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%[,(]*}"
  trap : TERM USR1 # Slurm also sends the signal to the rank; this shell waits for its end
  "$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/rank-$RANK.log")
  exit "${PIPESTATUS[0]}"' rank "${command[@]}"
