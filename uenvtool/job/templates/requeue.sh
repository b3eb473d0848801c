 &
step=$!
status=0
wait "$step" || status=$?
if [ -n "${again-}" ]; then # the limit came: training has the signal, and 90 seconds to write its checkpoint and end
  if timeout 90 tail --pid="$step" -f /dev/null; then
    status=0
    wait "$step" || status=$?
  fi
  scontrol requeue "$SLURM_JOB_ID" || echo "not queued again: this was run $((${SLURM_RESTART_COUNT:-0} + 1))" >&2
fi
exit "$status"
