# shellcheck shell=bash disable=SC2154 # the job that sources this script sets the variables
# Sourced by @JOB@: tests every node before the training starts. Nodes that fail the test get no rank.
# Written by uenvtool. To write it again: @AGAIN@
declare -A verdict=() address=() fit=()
nodes=() limit="${VET_SECONDS:-300}" # a node that does not respond within this time fails
while read -r found node rest; do
  verdict[$node]=$found address[$node]=$rest
done < <(timeout "$limit" srun -K0 -W0 --ntasks="$SLURM_NNODES" --ntasks-per-node=1@GPUS@ --cpu-bind=none bash -c '
  free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits 2>/dev/null)
  ports=$(cat /sys/class/net/hsn*/operstate /sys/class/infiniband/*/ports/*/state 2>/dev/null | grep -cE "^up|ACTIVE")
  if command -v nvidia-smi >/dev/null; then
    gpus="GPUs $(echo "$free" | grep -c "[0-9]") MiB_free_on_a_GPU $(echo "$free" | sort -n | head -n 1)"
  fi
  echo "$SLURMD_NODENAME $(@ADDRESS@)" network_ports "$ports" \
    kB_free "$(sed -n "s/MemAvailable: *\([0-9]*\) kB/\1/p" /proc/meminfo)" ${gpus-}
' | awk -v want=@RANKS@ '
  {
    name[NR] = $1
    place[NR] = $2
    for (i = 3; i < NF; i += 2) {
      has[NR, $i] = $(i + 1) + 0
      if ($(i + 1) > most[$i]) most[$i] = $(i + 1)
    }
  }
  END {
    if ("GPUs" in most && most["GPUs"] < want) most["GPUs"] = want
    for (n = 1; n <= NR; n++) {
      why = ""
      for (what in most)
        if (has[n, what] < most[what] * 0.8) why = why (why ? ", " : "") what " " has[n, what] + 0 " of " most[what]
      print (why ? "unfit" : "fit"), name[n], why ? why : place[n]
    }
  }')
for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
  case ${verdict[$node]-} in
    fit) nodes+=("$node") ;;
    unfit) echo "vet: $node is excluded: ${address[$node]}" ;;
    *) echo "vet: $node is excluded: no response within $limit s" ;;
  esac
done

reach() { # the ranks of one or two nodes run an all-reduce with torch; exit code 3 if torch is not installed
  local first
  for first in "${nodes[@]}"; do [[ " $* " != *" $first "* ]] || break; done # Slurm puts rank 0 there
  MASTER_ADDR="${address[$first]}" timeout "$limit" srun -l --nodes=$# --ntasks=$((@RANKS@ * $#)) --ntasks-per-node=@RANKS@ \
    --nodelist="$(IFS=, && echo "$*")"@CORES@ --cpu-bind=none@OPTIONS@ @STEP@bash -c '
@INSIDE@  export @RANK@ MASTER_PORT=@PORT@
  python=$(command -v python || command -v python3) || exit 3
  "$python" -c "$0"' "$numbers" >"$LOGS/vet-$1${2+-}${2-}.log" 2>&1
}
numbers='@NUMBERS@'
todo=("${nodes[@]}") tries=0
while [ ${#todo[@]} != 0 ]; do # test pairs; a node that fails is tested again with a node that passed
  pairs=() started=() later=() partners=("${!fit[@]}") known=${#fit[@]}
  while [ ${#todo[@]} != 0 ]; do
    if [ ${#partners[@]} != 0 ]; then
      pairs+=("${todo[0]} ${partners[0]}") todo=("${todo[@]:1}") partners=("${partners[@]:1}")
    elif [ "$known" = 0 ] && { [ ${#todo[@]} -ge 2 ] || [ ${#nodes[@]} = 1 ]; }; then
      pairs+=("${todo[*]:0:2}") todo=("${todo[@]:2}")
    else
      later+=("${todo[@]}") todo=()
    fi
  done
  for pair in "${pairs[@]}"; do
    # shellcheck disable=SC2086 # two arguments
    reach $pair &
    started+=($!)
  done
  for i in "${!pairs[@]}"; do
    met=0
    wait "${started[i]}" || met=$?
    for node in ${pairs[i]}; do
      case $met-$known in
        0-*) fit[$node]=1 ;;
        3-*) fit[$node]=1 unseen=", but torch is not installed and the network is untested" ;;
        *-0) later+=("$node") ;;
        *) [ -n "${fit[$node]-}" ] || echo "vet: $node is excluded: it cannot connect to another node, see $LOGS/vet-$node*.log" ;;
      esac
    done
  done
  todo=("${later[@]}")
  if [ ${#fit[@]} = 0 ]; then # no pair passed, so the bad nodes are unknown; try other pairs a few times
    if [ $((tries += 1)) -ge 4 ] || [ "$tries" -ge $((${#nodes[@]} - 1)) ]; then break; fi
    others=("${nodes[@]:1}")
    todo=("${nodes[0]}" "${others[@]:tries}" "${others[@]:0:tries}")
  fi
done
passed=()
for node in "${nodes[@]}"; do [ -z "${fit[$node]-}" ] || passed+=("$node"); done
if [ ${#passed[@]} -lt @NODES@ ]; then
  echo "vet: ${#passed[@]} of $SLURM_NNODES nodes pass, but the training needs @NODES@, see $LOGS/vet-*.log; request more with --spare" >&2
  exit 1
fi
passed=("${passed[@]:0:@NODES@}")
echo "vet: the training runs on ${passed[*]}, which pass${unseen-}"
export MASTER_ADDR="${address[${passed[0]}]}" NNODES=@NODES@
