  export NODE_RANK="$SLURM_NODEID"
  trap @SIGNAL@ TERM USR1 # Slurm also sends the signal to the program; this shell waits for the program to exit
  @PROGRAM@"$@" 2>&1 | (trap "" TERM USR1; exec tee -a "$LOGS/node-$NODE_RANK.log")
  exit "${PIPESTATUS[0]}"
