# A step of its own removes them from each node however the job ends: Slurm sends SIGTERM to every step then.
exec {ready}< <(exec srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1 --overlap --cpu-bind=none bash -c '
  trap : TERM
  trap "" USR1 USR2 # for the ranks
  echo ready
  sleep infinity &
  wait
  trap "" TERM
  rm -rf "$@"
' cleaner @PATHS@ 2>/dev/null)
for ((node = 0; node < SLURM_NNODES; node++)); do
  read -r <&"$ready" || { echo "the step that removes copies from the nodes did not start" >&2; exit 1; }
done
