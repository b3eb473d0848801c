#!/bin/bash
# Tests ngc-pytorch:26.02-py3-alps4
# on nodes. Prints one line per test, and exits with 1 if a test fails.
# Made by uenvtool, again: uenvtool container ngc-pytorch-26.02-alps4
#   bash test.sh           run all tests; set your project in SBATCH_ACCOUNT or SLURM_ACCOUNT
#   bash test.sh NAME...   run only these tests
#   EDF=FILE bash test.sh  use another environment definition file
options=(--mpi=pmix --network=disable_rdzv_get)

tests() {
  # name, nodes, tasks per node, a pattern that a line of the output must match, command
  # libfabric sees the Slingshot network card
  run cxi 1 1 'provider: cxi' fi_info -p cxi
  # NCCL goes over libfabric, and its collectives give the right sums
  run nccl-alltoall 2 4 'Using network AWS Libfabric' env NCCL_DEBUG=INFO alltoall_perf -b 32 -e 4M -f 2 -g 1
  # the bandwidth of what a training does most
  run nccl-allreduce 4 4 'Out of bounds values : 0 OK' all_reduce_perf -b 1M -e 1G -f 2 -g 1
  # NVSHMEM goes over libfabric
  run nvshmem-alltoall 2 4 '' /opt/nvshmem/bin/perftest/device/coll/alltoall_latency --datatype float -b 32 -e 4194304 -f 2
  # MPI goes over libfabric, from and to GPU memory
  run osu-alltoall 2 4 '' /usr/local/libexec/osu-micro-benchmarks/mpi/collective/osu_alltoall --type mpi_float --message-size 32:4194304 --full --accelerator cuda
}

expected() { # the variables that the image sets
  printf '%s\n' \
    MPICH_GPU_SUPPORT_ENABLED=0 \
    CUDA_CACHE_DISABLE=1 \
    TORCH_NCCL_ASYNC_ERROR_HANDLING=1 \
    'NCCL_NET=AWS Libfabric' \
    NCCL_SOCKET_IFNAME=hsn \
    'NCCL_PROTO=^LL128' \
    NCCL_NCHANNELS_PER_NET_PEER=4 \
    FI_PROVIDER=cxi \
    FI_CXI_DEFAULT_CQ_SIZE=131072 \
    FI_CXI_DEFAULT_TX_SIZE=16384 \
    FI_CXI_DISABLE_HOST_REGISTER=1 \
    FI_CXI_RDZV_PROTO=alt_read \
    FI_CXI_RDZV_EAGER_SIZE=0 \
    FI_CXI_RDZV_GET_MIN=0 \
    FI_CXI_RDZV_THRESHOLD=0 \
    FI_CXI_RX_MATCH_MODE=hybrid \
    FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD=16777216 \
    FI_MR_CACHE_MONITOR=userfaultfd \
    FI_MR_CACHE_MAX_SIZE=-1 \
    FI_MR_CACHE_MAX_COUNT=524288 \
    PMIX_MCA_psec=native \
    'OMPI_MCA_btl=^tcp,uct,usnic' \
    OMPI_MCA_pml=cm \
    OMPI_MCA_mtl=ofi \
    OMPI_MCA_opal_common_ofi_provider_include=cxi \
    NCCL_P2P_LEVEL=NVL \
    NCCL_NET_GDR_LEVEL=PHB \
    NCCL_NET_GDR_C2C=1 \
    NCCL_NET_GDR_READ=1 \
    NVSHMEM_REMOTE_TRANSPORT=libfabric \
    NVSHMEM_LIBFABRIC_PROVIDER=cxi \
    NVSHMEM_DISABLE_CUDA_VMM=1 \
    NCCL_CROSS_NIC=1
}

set -uo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")" || exit 1
edf=${EDF:-$PWD/ngc-pytorch.toml}
wanted=" $* " failed=''

started() { srun --environment="$edf" ${options[@]+"${options[@]}"} --nodes="$1" --ntasks-per-node="$2" "${@:3}"; }

is_wanted() { [[ $wanted == "  " || $wanted == *" $1 "* ]]; }

tell() { # NAME WHY: print the result of a test
  if [[ -z $2 ]]; then
    echo "ok      $1"
  else
    echo "FAILED  $1: $2" && failed=1
  fi
}

variables() {
  is_wanted variables || return 0
  local printed line why=''
  printed=$(started 1 1 env) || why="srun failed"
  while IFS= read -r line; do
    [[ -z $line || $'\n'$printed$'\n' == *$'\n'"$line"$'\n'* ]] || why="${why:-not set as expected:} $line"
  done < <(expected)
  tell variables "$why"
}

# run NAME NODES TASKS PRINTS COMMAND...
run() {
  is_wanted "$1" || return 0
  local output why=''
  output=$(started "$2" "$3" "${@:5}" 2>&1) || why="exit code $?"
  [[ -z $4 ]] || grep -Eq -- "$4" <<<"$output" || why="${why:-no line of the output matches: $4}"
  tell "$1" "$why"
  [[ -z $why ]] || printf '%s\n' "$output" | tail -n 20
}

variables
tests
[[ -z $failed ]]
