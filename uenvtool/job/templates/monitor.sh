@MONITOR@ >"$LOGS/gpu.csv" &
monitor=$!
trap 'kill "$monitor" 2>/dev/null || :' EXIT # also if the training fails
