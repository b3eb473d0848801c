# The cores that a task may use, shared between its processes: one a GPU with torchrun.
# tcsh cannot read what the kernel says of them; without --cpus-per-task it guesses at most 8, as documented.
set ue_cores = ''
set ue_tasks = 1
set ue_gpus = 1
set noglob
if ( $?SLURM_TASKS_PER_NODE ) then
  set ue_tasks = ( $SLURM_TASKS_PER_NODE:as/)/?/:as/(/ /:as/,/ / )
endif
if ( $?SLURM_STEP_TASKS_PER_NODE ) then
  set ue_tasks = ( $SLURM_STEP_TASKS_PER_NODE:as/)/?/:as/(/ /:as/,/ / )
endif
set ue_tasks = ( $ue_tasks 1 ) # a brace in it would end the script if it were a pattern
unset noglob
set ue_tasks = "$ue_tasks[1]"
if ( "$ue_tasks" !~ [1-9]* || "$ue_tasks" =~ *[^0-9]* ) set ue_tasks = 1
if ( $?SLURM_GPUS_ON_NODE ) then
  set ue_gpus = $SLURM_GPUS_ON_NODE:q
endif
if ( $ue_gpus:q !~ [1-9]* || $ue_gpus:q =~ *[^0-9]* ) set ue_gpus = 1
if ( $?SLURM_CPUS_PER_TASK ) then
  if ( $SLURM_CPUS_PER_TASK:q =~ [1-9]* && $SLURM_CPUS_PER_TASK:q !~ *[^0-9]* ) set ue_cores = $SLURM_CPUS_PER_TASK
else if ( $?SLURM_CPUS_ON_NODE ) then
  if ( $SLURM_CPUS_ON_NODE:q =~ [1-9]* && $SLURM_CPUS_ON_NODE:q !~ *[^0-9]* ) then
    @ ue_cores = $SLURM_CPUS_ON_NODE / $ue_tasks
    if ( $ue_cores > 8 ) set ue_cores = 8
    if ( ! $?OMP_NUM_THREADS ) then
      ue_tell 'OMP_NUM_THREADS is a guess: give --cpus-per-task (-c)'
    endif
  endif
endif
if ( "$ue_cores" != '' && $ue_gpus > $ue_tasks ) then
  @ ue_cores = $ue_cores * $ue_tasks / $ue_gpus
  if ( $ue_cores < 1 ) set ue_cores = 1
endif
