# A separate step removes the copies from each node. However the job ends, Slurm sends SIGTERM to every step.
exec {ready}< <(exec srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1 --overlap --cpu-bind=none bash -c '
  trap : TERM
  trap "" USR1 USR2 # these signals are for the ranks
  echo ready
  sleep infinity &
  wait
  trap "" TERM
  rm -rf "$@"
' cleaner @PATHS@ 2>/dev/null)
for ((node = 0; node < SLURM_NNODES; node++)); do
  read -r <&"$ready" || { echo "cannot start the step that removes the copies from the nodes" >&2; exit 1; }
done
