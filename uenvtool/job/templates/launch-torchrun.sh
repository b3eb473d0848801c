@SIGNAL@  export NODE_RANK="$SLURM_NODEID" TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="[rank \${rank}] "
@NUMA@  exec @PROGRAM@@BINDING@ \
    --log-dir="$LOGS" --tee=3 "$@"
