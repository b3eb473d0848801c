 &
step=$!
status=0
wait "$step" || status=$?
if [ -n "${again-}" ]; then # the limit came: training has the signal, and ends with its checkpoint written
  status=0
  wait "$step" || status=$?
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
