# Prints the Python stack of each rank on this node, by py-spy where it is found: on PATH, or beside a rank's Python.
# Arguments: RANK:NODE:PID of each rank of the job.
for one; do
  IFS=: read -r rank node process <<<"$one"
  [ "$node" = "$SLURMD_NODENAME" ] || continue
  program=$(readlink "/proc/$process/exe" 2>/dev/null) || continue
  case ${program##*/} in python*) ;; *) continue ;; esac
  spy=$(command -v py-spy || ls "${program%/*}/py-spy" 2>/dev/null) || exit 0
  printf 'rank %s on %s\n' "$rank" "$node"
  for _ in 1 2 3; do # it does not stop the process, and can meet a stack that changes
    "$spy" dump --nonblocking --pid "$process" 2>/dev/null && break
  done
done
