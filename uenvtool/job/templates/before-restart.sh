[ "${SLURM_RESTART_COUNT:-0}" -lt @MOST@ ] || { echo "not run again: this was run @MOST@ times" >&2; exit 1; }
begun=$(stat -Lc %s "/proc/$$/fd/1") # where the output of this run begins
mapfile -t of_rank < <(@NODES@) # the nodes of the ranks
