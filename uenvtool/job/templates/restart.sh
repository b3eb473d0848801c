
elif [ "$status" != 0 ]; then # it failed: what doctor finds in the output of this run decides
  decided=0 bad=() known="$LOGS/again.sh" new=""
  said=$(tail -c "+$((begun + 1))" "/proc/$$/fd/1" | uenvtool doctor --log - --restart) || decided=$?
  [ "$decided" != 127 ] || said="stop: uenvtool is not on the PATH of this node, and nobody looks why training failed"
  while read -r word name value; do
    case $word in
      node) bad+=("$name") ;;
      rank) bad+=("${of_rank[name / @RANKS@]-}") ;;
      reason) new="# $name" ;;
      set) new+=$'\n'"export $name=$(printf %q "$value")" ;;
    esac
  done <<<"$said"
  out=$(for node in "${of_rank[@]}"; do [[ " ${bad[*]} " != *" $node "* ]] || printf ",%s" "$node"; done)
  if [ "$decided" = 0 ] && [ -z "$out" ] && grep -qsxF "${new%%$'\n'*}" "$known"; then
    said="stop, since it came again: ${said#again: }" decided=1
  fi
  echo "${said%%$'\n'*}${out:+; next without ${out#,}}" >&2
  if [ "$decided" = 0 ]@LIMIT@; then
    echo "$new" >>"$known" # the ranks of the next run read it
    old=$(scontrol --oneliner show job "$SLURM_JOB_ID" | sed -n "s/.* ExcNodeList=\([^ (]*\).*/\1/p")
    trap "" TERM # what queues the job again ends this script, which has to say more then
    scontrol requeue "$SLURM_JOB_ID"
    [ -z "$out" ] || scontrol update JobId="$SLURM_JOB_ID" ExcNodeList="${old:+$old,}${out#,}"
  fi
