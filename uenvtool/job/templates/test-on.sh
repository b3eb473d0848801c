test_on() { # NAME RANKS NODE... -- COMMAND...: runs a command with RANKS ranks on each of the nodes
  local name=$1 ranks=$2 code=0 start=$SECONDS on=() gpus=() first
  shift 2
  while [ "$1" != -- ]; do
    on+=("$1")
    shift
  done
  shift
  [ "$ranks" != 1 ] || gpus=(@GPUS@)
  for first in "${nodes[@]}"; do [[ " ${on[*]} " != *" $first "* ]] || break; done # Slurm puts rank 0 there
  MASTER_ADDR="${address[$first]-$first}" timeout -k 10 "$limit" srun -l -K"${stop:-$((ranks != 1))}" \
    -N ${#on[@]} -n $((ranks * ${#on[@]})) --ntasks-per-node="$ranks" "${gpus[@]}" \
    -w "$(IFS=, && echo "${on[*]}")"@CORES@ --cpu-bind=none@SRUN@ @STEP@bash -c '
@INSIDE@  export @RANK@ MASTER_PORT=@PORT@
  exec "$@"' "$name" "$@" >"$LOGS/$name.log" 2>&1 || code=$?
  echo "$name $code $((SECONDS - start)) ${on[*]}" >>"$LOGS/results"
  return "$code"
}
