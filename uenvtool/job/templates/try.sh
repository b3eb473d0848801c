@FUNCTION@# Each test writes its output to $LOGS/NAME.log, and its exit code, seconds and nodes to a line of $LOGS/results.
tests='@TESTS@' python=("${command[@]}")
echo "on @SYSTEM@ @RUNTIME@" >"$LOGS/results"
limit="${TRY_SECONDS:-120}" failed='' ranks=@RANKS@ largest=@LARGEST@ # a test that takes more seconds fails
torch() { # NAME TEST RANKS NODE...: runs a test with torch
  # shellcheck disable=SC2086 # the sizes of a test are arguments
  test_on "$1" "${@:3}" -- "${python[@]}" "$tests" $2
}
reduce() { # NAME SMALLEST LARGEST NODE...: an all-reduce with nccl-tests, or else with torch
  if [ "$has_perf" ]; then
    perf "$1" all_reduce_perf "$2" "$3" "${@:4}"
  else
    torch "$1" "sums $2 $3" "$ranks" "${@:4}"
  fi
}
perf() { # NAME PROGRAM SMALLEST LARGEST NODE...: a program of nccl-tests, whose name can end with _mpi in containers
  test_on "$1" "$ranks_of_tests" "${@:5}" -- env NCCL_DEBUG=INFO \
    bash -c 'exec "$(command -v "${0}_mpi" || echo "$0")" "$@"' "$2" -b "$3" -e "$4" -f 2 -g "$gpus_of_rank"
}
in_turn() { # FUNCTION NAME ...: a test on all nodes. After one has failed, the others would only wait.
  if [ "$failed" ]; then
    echo "$2 skipped 0 $failed" >>"$LOGS/results"
  else
    "$@" || failed=$2
  fi
}
torch devices devices 1 "${nodes[@]}" || :
has_perf=$(grep -m 1 nccl-tests "$LOGS/devices.log") || :
if [ "$ranks" != 1 ]; then
  started=()
  for node in "${nodes[@]}"; do
    reduce "node-$node" 1048576 "$largest" "$node" &
    started+=($!)
  done
  wait "${started[@]}" || :
fi
if [ ${#nodes[@]} != 1 ]; then
  for run in 1 2 3 ${has_perf:+4 5 6 7 8}; do in_turn reduce "sums-$run" 1048576 1048576 "${nodes[@]}"; done
  in_turn reduce all_reduce 65536 "$largest" "${nodes[@]}"
  [ -z "$has_perf" ] || NCCL_NCHANNELS_PER_NET_PEER=4 in_turn perf sendrecv sendrecv_perf "$largest" "$largest" "${nodes[@]}"
fi
in_turn torch training-one-rank train 1 "${nodes[0]}"
for run in 1 2; do in_turn torch "training-$run" train "$ranks" "${nodes[@]}"; done
if [ ${#nodes[@]} -gt 2 ]; then # each node with up to three others
  ring=("${nodes[@]}")
  [ $((${#ring[@]} % 2)) = 0 ] || ring+=("")
  last=$((${#ring[@]} - 1))
  for ((round = 0; round < 3; round++)); do
    started=()
    for ((i = 0; i < ${#ring[@]} / 2; i++)); do
      if [ -z "${ring[i]}" ] || [ -z "${ring[last - i]}" ]; then continue; fi
      reduce "pair-$round-$i" "$largest" "$largest" "${ring[i]}" "${ring[last - i]}" &
      started+=($!)
    done
    wait "${started[@]}" || :
    ring=("${ring[0]}" "${ring[last]}" "${ring[@]:1:last-1}")
  done
fi
echo "end 0 $SECONDS" >>"$LOGS/results"
