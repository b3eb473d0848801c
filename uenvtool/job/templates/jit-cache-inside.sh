  jit=/dev/shm/jit-$SLURM_JOB_ID-$SLURMD_NODENAME # one for all ranks of the node
  export TRITON_CACHE_DIR=$jit/triton TORCHINDUCTOR_CACHE_DIR=$jit/inductor CUDA_CACHE_PATH=$jit/cuda CUDA_CACHE_DISABLE=0
