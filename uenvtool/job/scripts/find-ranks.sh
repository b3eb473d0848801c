# Prints one line of JSON for each process on this node that is a rank of the job: a process with RANK, which a launcher
# sets, or else a task of a step of srun. Children of a rank inherit its variables and are skipped.
declare -A rank_of parent_of uenvs_of
for folder in /proc/[0-9]*; do
    pid=${folder#/proc/} job='' rank='' task='' step='' uenvs='' tasks=''
    [[ $pid != "$$" && -r $folder/environ ]] || continue
    while IFS= read -r -d '' line; do
        case $line in
        SLURM_JOB_ID=*) job=${line#*=} ;;
        RANK=*) rank=${line#*=} ;;
        SLURM_PROCID=*) task=${line#*=} ;;
        SLURM_STEP_ID=*) step=${line#*=} ;;
        SLURM_STEP_NUM_TASKS=*) tasks=${line#*=} ;; # not in the batch script
        UENV_MOUNT_LIST=*) uenvs=${line#*=} ;;
        esac
    done 2>/dev/null <"$folder/environ"
    [[ $job == "$SLURM_JOB_ID" && $tasks && $step != "$SLURM_STEP_ID" ]] || continue
    rank_of[$pid]=$rank:$task uenvs_of[$pid]=$uenvs
    read -r line 2>/dev/null <"$folder/stat" || continue
    read -r _ parent_of[$pid] _ <<<"${line##*) }"
done
has_ranks=
for pid in "${!rank_of[@]}"; do
    [[ ${rank_of[$pid]} == :* ]] || has_ranks=yes
done
for pid in "${!rank_of[@]}"; do
    mine=${rank_of[$pid]}
    [[ ${rank_of[${parent_of[$pid]:-0}]:-} != "$mine" ]] || continue
    rank=${mine%%:*}
    [[ $has_ranks ]] || rank=${mine#*:}
    [[ $rank =~ ^[0-9]+$ && ! ${uenvs_of[$pid]} =~ [\"\\[:cntrl:]] ]] || continue
    read -r _ pages _ 2>/dev/null <"/proc/$pid/statm" || continue
    printf '{"rank": %d, "node": "%s", "pid": %d, "pages": %d, "uenvs": "%s"}\n' "$rank" "$SLURMD_NODENAME" "$pid" "$pages" \
        "${uenvs_of[$pid]}"
done
