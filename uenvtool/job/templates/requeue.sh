 &
step=$!
status=0
wait "$step" || status=$?
if [ -n "${again-}" ]; then # the limit came: training has the signal, and ends with its checkpoint written
  status=0
  wait "$step" || status=$?
  @LIMIT@scontrol requeue "$SLURM_JOB_ID" || echo "not queued again: this was run $((${SLURM_RESTART_COUNT:-0} + 1))" >&2
fi
exit "$status"
