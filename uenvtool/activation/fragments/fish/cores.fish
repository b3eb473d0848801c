# The cores that a task may use, shared between its processes: one a GPU with torchrun.
set -l ue_cores
set -l ue_bound 0
set -l ue_tasks "$SLURM_STEP_TASKS_PER_NODE"
test -n "$ue_tasks"; or set ue_tasks "$SLURM_TASKS_PER_NODE"
set ue_tasks (string match -r -- '^[1-9][0-9]*' "$ue_tasks"; or echo 1)
set -l ue_gpus (string match -r -- '^[1-9][0-9]*$' "$SLURM_GPUS_ON_NODE"; or echo 1)
set -l ue_all (string match -r -- '^[1-9][0-9]*$' "$SLURM_CPUS_ON_NODE"; or echo 0)
if test -n "$SLURM_CPUS_PER_TASK"
    set ue_cores (string match -r -- '^[1-9][0-9]*$' "$SLURM_CPUS_PER_TASK")
else if test "$ue_all" -gt 0
    # The cores that the kernel lets this process use, such as 0-7,144: those of the task if Slurm has bound it.
    if test -n "$SLURM_STEP_ID" -a -r "$UENVTOOL_ROOT/proc/self/status"
        while read -l ue_line
            set -l ue_parts (string match -r -- '^Cpus_allowed_list:\s*([0-9,-]+)' "$ue_line"); or continue
            for ue_line in (string split ',' -- $ue_parts[2])
                set ue_parts (string split '-' -- $ue_line)
                set ue_bound (math "$ue_bound + $ue_parts[-1] - $ue_parts[1] + 1")
            end
        end <"$UENVTOOL_ROOT/proc/self/status"
    end
    if test "$ue_bound" -gt 0 -a (math "$ue_bound * $ue_tasks") -le "$ue_all"
        set ue_cores $ue_bound
    else # a guess: at most the 8 of the documentation
        set ue_cores (math "min(8, floor($ue_all / $ue_tasks))")
        set -q OMP_NUM_THREADS; or ue_tell 'OMP_NUM_THREADS is a guess: give --cpus-per-task (-c)'
    end
end
test -n "$ue_cores" -a "$ue_gpus" -gt "$ue_tasks"
and set ue_cores (math "max(1, floor($ue_cores * $ue_tasks / $ue_gpus))")
