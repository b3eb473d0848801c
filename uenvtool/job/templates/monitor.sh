@MONITOR@ >"@FOLDER@/gpu-$SLURM_JOB_ID.csv" &
monitor=$!
trap 'kill "$monitor" 2>/dev/null || :' EXIT # this process alone, also if training fails
