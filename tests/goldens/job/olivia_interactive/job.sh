#!/bin/bash
# `bash job.sh` waits for a node and opens a shell there with the settings of a job. `exit` releases the node.
options=(
  --job-name=jupyter
  --account=g123
  --partition=accel
  --nodes=1
  --time=01:00:00
  --ntasks-per-node=1 # the shell
  --cpus-per-task=288
  --gpus-per-node=4   # each rank sees all GPUs and uses device LOCAL_RANK
  --mem=440G
)
command=(jupyter lab 'a b')
# Written by uenvtool. To write it again: uenvtool job --system olivia --account g123 --interactive -- jupyter lab 'a b'

on_node() {
set -e
ulimit -c 0 # no core dumps

module reset || module purge # reset fails if the site has no default modules
module load NRIS/GPU
module load NCCL/2.26.6-GCCcore-14.2.0-CUDA-12.8.0
image=/cluster/work/support/container/pytorch_nvidia_25.06_arm64.sif
binds=(
  "${EBROOTLIBFABRIC:?}"/lib:/opt/libfabric/lib # libfabric with Slingshot support
  "${EBROOTLIBFABRIC:?}"/include:/opt/libfabric/include # its headers
  "${EBROOTNCCL:?}":/opt/nccl                   # the site's NCCL
  "${EBROOTAWSMINOFIMINNCCL:?}"/lib:/opt/aws-ofi-nccl/lib # NCCL's plugin for libfabric
  /usr/lib64:/usr/lib64                         # libcxi.so.1
)
for path in "${binds[@]}" "$image"; do
  [ -e "${path%%:*}" ] || { echo "missing on $(hostname): ${path%%:*}" >&2; exit 1; }
done

# Lines with ${NAME-...} keep a value that you set before you start the job. All other lines replace it.
# `uenvtool explain NAME` explains a variable.
# [sigma2]     Sigma2 documentation, NCCL modules on Olivia (GH200), 2026-05-13
# [docs-2026]  CSCS documentation (NCCL, MPI, NVSHMEM, PyTorch, extended images), 2026-08
# set by uenvtool to the cores of a rank (torchrun would set 1); use fewer if data loaders fork
# [torch/distributed/run.py]
export OMP_NUM_THREADS="${OMP_NUM_THREADS-72}"
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
# selects the interfaces of the high-speed network [sigma2]
export NCCL_SOCKET_IFNAME="${NCCL_SOCKET_IFNAME-hsn0,hsn1,hsn2,hsn3}"
export FI_CXI_DEFAULT_TX_SIZE="${FI_CXI_DEFAULT_TX_SIZE-2048}" # HPE recommends this value [sigma2]
export FI_CXI_RX_MATCH_MODE="${FI_CXI_RX_MATCH_MODE-hybrid}" # matches in hardware and falls back to software [sigma2]
export FI_CXI_RDZV_PROTO="${FI_CXI_RDZV_PROTO-alt_read}" # the receiver reads large messages [sigma2]
export FI_CXI_RDZV_EAGER_SIZE="${FI_CXI_RDZV_EAGER_SIZE-0}" # disables eager messages [sigma2]
export FI_CXI_RDZV_GET_MIN="${FI_CXI_RDZV_GET_MIN-0}" # disables eager messages [sigma2]
export FI_CXI_RDZV_THRESHOLD="${FI_CXI_RDZV_THRESHOLD-0}" # disables eager messages [sigma2]
# export NCCL_DEBUG=INFO # NCCL prints the network that it uses; `uenvtool doctor --log FILE` reads it

export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname --ip-address | grep -oE '^[^ ]+' | grep -v ^127 || hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
export NODE_RANK=0
exec \
  apptainer exec --nv "${binds[@]/#/--bind=}" \
  --env LIBFABRIC_HOME=/opt/libfabric --env NCCL_HOME=/opt/nccl "$image" bash -c '
  export LD_LIBRARY_PATH=/opt/libfabric/lib:/opt/nccl/lib:/opt/aws-ofi-nccl/lib:/usr/lib64:$LD_LIBRARY_PATH
  export CPATH=/opt/libfabric/include:$CPATH
  exec "$@"' shell "$@"
}
exec srun "${options[@]}" --cpu-bind=none --pty bash -c "$(declare -f on_node); on_node \"\$@\"" shell "${command[@]}"
