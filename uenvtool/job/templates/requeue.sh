 &
step=$!
status=0
wait "$step" || status=$?
if [ -n "${again-}" ]; then # at the time limit, the training has 90 seconds after the signal to write its checkpoint and exit
  if timeout 90 tail --pid="$step" -f /dev/null; then
    status=0
    wait "$step" || status=$?
  fi
  scontrol requeue "$SLURM_JOB_ID" || echo "the job was not requeued after run $((${SLURM_RESTART_COUNT:-0} + 1))" >&2
fi
exit "$status"
