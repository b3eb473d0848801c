# Prints the Python stack of each rank on this node, by py-spy where it is found: on PATH, or beside a rank's Python.
for process in /proc/[0-9]*; do
  rank=$({ tr '\0' '\n' <"$process/environ" | sed -n 's/^RANK=//p'; } 2>/dev/null) || continue
  program=$(readlink "$process/exe" 2>/dev/null) || continue
  case $rank:${program##*/} in [0-9]*:python*) ;; *) continue ;; esac
  own=$(tr '\0' '\n' <"$process/environ" 2>/dev/null | sed -n 's/^SLURM_JOB_ID=//p')
  [ "$own" = "$SLURM_JOB_ID" ] || continue
  spy=$(command -v py-spy || ls "${program%/*}/py-spy" 2>/dev/null) || exit 0
  printf 'rank %s on %s\n' "$rank" "${SLURMD_NODENAME:-$(hostname)}"
  "$spy" dump --nonblocking --pid "${process#/proc/}" 2>/dev/null
done
