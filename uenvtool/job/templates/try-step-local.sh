export MASTER_ADDR=localhost
nodes=("$(uname -n)")
test_on() { # NAME RANKS NODE -- COMMAND...: runs a command with RANKS ranks on this machine
  local name=$1 ranks=$2 code=0 start=$SECONDS rank started=()
  shift 4
  for ((rank = 0; rank < ranks; rank++)); do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$ranks MASTER_PORT=$((20000 + ($$ + SECONDS) % 10000)) \
      timeout -k 10 "$limit" "$@" >>"$LOGS/$name.log" 2>&1 &
    started+=($!)
  done
  for rank in "${started[@]}"; do wait "$rank" || code=$?; done
  echo "$name $code $((SECONDS - start)) ${nodes[*]}" >>"$LOGS/results"
  return "$code"
}
ranks_of_tests=1 gpus_of_rank=@RANKS@ # a program of nccl-tests without MPI is one process
