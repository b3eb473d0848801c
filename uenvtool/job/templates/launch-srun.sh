  export @RANK@ @TASKS@
@LOCAL@  trap : TERM USR1 # Slurm also sends the signal to the rank; this shell waits for the rank to exit
  "$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/rank-$RANK.log")
  exit "${PIPESTATUS[0]}"
