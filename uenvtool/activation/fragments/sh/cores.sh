# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# The cores that a task may use, shared between its processes: one a GPU with torchrun.
ue_tasks=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-1}} && ue_tasks=${ue_tasks%%[!0-9]*} ue_rest=''
ue_gpus=${SLURM_GPUS_ON_NODE:-1} ue_all=${SLURM_CPUS_ON_NODE:-0} ue_cores=${SLURM_CPUS_PER_TASK:-0}
case :$ue_tasks:$ue_gpus:$ue_all:$ue_cores: in :0* | *[!0-9:]* | *::* | *:0[0-9]*) ue_all=0 ue_gpus=0 ue_cores=0 ;; esac
if [[ $ue_cores == 0 && $ue_all != 0 ]]; then # what the kernel allows, such as 0-7,144, if Slurm has bound the task
  [[ -z ${SLURM_STEP_ID-} || ! -r ${UENVTOOL_ROOT-}/proc/self/status ]] || while IFS= read -r ue_line; do
    case $ue_line in Cpus_allowed_list:*[0-9]) ue_rest=${ue_line##*[!0-9,-]}, ;; esac
  done <"${UENVTOOL_ROOT-}/proc/self/status"
  while [[ -n $ue_rest ]]; do
    ue_line=${ue_rest%%,*} && ue_rest=${ue_rest#*,} && ue_cores=$((ue_cores + ${ue_line##*-} - ${ue_line%%-*} + 1))
  done
  if [[ $ue_cores == 0 || $((ue_cores * ue_tasks)) -gt $ue_all ]]; then # a guess: at most 8, as is documented
    ue_cores=$((ue_all / ue_tasks > 8 ? 8 : ue_all / ue_tasks))
    [[ -n ${OMP_NUM_THREADS+x} ]] || ue_tell 'OMP_NUM_THREADS is a guess: give --cpus-per-task (-c)'
  fi
fi
[[ $ue_gpus -le ${ue_tasks:-0} ]] || ue_cores=$(((ue_cores * ue_tasks + ue_gpus - 1) / ue_gpus))
[[ $ue_cores != 0 ]] || ue_cores=''
