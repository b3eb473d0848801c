@MONITOR@ >"$LOGS/gpu.csv" &
monitor=$!
trap 'kill "$monitor" 2>/dev/null || :' EXIT # end the monitor even if the training fails
