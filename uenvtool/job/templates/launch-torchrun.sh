  exec torchrun --nnodes="$SLURM_NNODES" --nproc-per-node=@RANKS@ --rdzv-backend=c10d \
    --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" "$@"
