#@header
#
#   source @name@           sets what is unset, says what it overrides, starts no process
#   uenvtool_rank_env        inside srun: RANK, LOCAL_RANK, WORLD_SIZE, NNODES, MASTER_ADDR, MASTER_PORT
#   uenvtool_deactivate      brings the environment back as it was
#
# UENVTOOL_QUIET=1 silences it, UENVTOOL_VENV=PATH names a virtual environment, UENVTOOL_RUNTIME=NAME the runtime.
# For tcsh. What uenvtool_deactivate brings back is in a shell variable of that name.

set ue_globbed = ( $?noglob $?nonomatch )
unset noglob
set nonomatch
set ue_undo = ''
set ue_again = $?uenvtool_deactivate
if ( $ue_again ) then
  # Sourced again: it goes on from there, and still knows the way back.
  set ue_undo = $uenvtool_deactivate[1]:q
else
  set uenvtool_deactivate = ( 'what it was' )
  #@remembered
endif
set ue_rank = 0
if ( $?RANK ) then
  set ue_rank = $RANK:q
endif
if ( $?PMI_RANK ) then
  set ue_rank = $PMI_RANK:q
endif
if ( $?OMPI_COMM_WORLD_RANK ) then
  set ue_rank = $OMPI_COMM_WORLD_RANK:q
endif
if ( $?SLURM_PROCID ) then
  set ue_rank = $SLURM_PROCID:q
endif
set ue_say = 0
if ( "$ue_rank" == 0 ) set ue_say = 1
if ( $?UENVTOOL_QUIET ) then
  if ( $UENVTOOL_QUIET:q != '' && $UENVTOOL_QUIET:q != 0 ) set ue_say = 0
endif

set ue_runtime = ''
if ( $?UENVTOOL_RUNTIME ) then
  foreach ue_name ( @runtimes@ )
    if ( $UENVTOOL_RUNTIME:q == $ue_name ) set ue_runtime = $ue_name
  end
  if ( "$ue_runtime" == '' && $ue_say && ! $ue_again ) then
    echo 'uenvtool: UENVTOOL_RUNTIME is none of @runtimes@' >>! /dev/stderr
  endif
endif
if ( "$ue_runtime" == '' ) then
  #@if runtime
  if ( $?UENV_VIEW || $?UENV_MOUNT_LIST ) then
    set ue_runtime = uenv
  else if ( $?APPTAINER_CONTAINER || $?SINGULARITY_CONTAINER || -d /.singularity.d ) then
    set ue_runtime = apptainer
  else if ( $?PET_NNODES || $?RUNAI_NUM_OF_GPUS ) then
    set ue_runtime = runai
  else if ( $?container || $?NVIDIA_PRODUCT_NAME || -e /.dockerenv || -e /run/.containerenv ) then
    set ue_runtime = ce
  else
    set ue_runtime = @runtime@
  endif
  #@else
  set ue_runtime = @runtime@
  #@end
endif

# The views of the uenvs that are loaded, `mount:name:view,...`; the base is the first that has a Python.
# A mount with spaces is not seen.
set ue_view_root = ''
set ue_views = ( )
if ( $?UENV_VIEW ) then
  set noglob
  set ue_parts = ( $UENV_VIEW:as/,/ /:as/:/ / )
  unset noglob
  while ( $#ue_parts >= 3 )
    set ue_name = "${ue_parts[1]}/env/${ue_parts[3]}"
    set ue_views = ( $ue_views:q $ue_name:q )
    if ( "$ue_view_root" == '' ) set ue_view_root = $ue_name:q
    if ( ! -x "${ue_view_root}/bin/python" && -x "${ue_name}/bin/python" ) set ue_view_root = $ue_name:q
    shift ue_parts
    shift ue_parts
    shift ue_parts
  end
endif

set ue_overlay = ''
set ue_venv = @venv@
if ( $?UENVTOOL_VENV ) then
  set ue_venv = $UENVTOOL_VENV:q
endif
if ( $ue_venv:q != '' ) then
  if ( $ue_venv:q !~ /* ) set ue_venv = $cwd:q/$ue_venv:q
  if ( -x $ue_venv:q/bin/python ) then
    #@overlay
    setenv VIRTUAL_ENV $ue_venv:q
    unsetenv PYTHONHOME
    if ( ${PATH:q}: !~ ${ue_venv:q}/bin:* ) setenv PATH $ue_venv:q/bin:$PATH:q
    # tcsh cannot read a file by itself: an overlay that is named is taken to carry its base.
    set ue_overlay = 1
  else if ( $ue_say && ! $ue_again ) then
    echo "uenvtool: there is no virtual environment at" $ue_venv:q >>! /dev/stderr
  endif
endif
#@if nccl

# NCCL's version, from the name of its library (libnccl.so.2.26.2); 0 where none is seen.
set ue_nccl = 0
set ue_seen = ( )
if ( $ue_runtime == uenv ) then
  foreach ue_name ( $ue_views:q )
    set ue_seen = ( $ue_seen:q $ue_name:q/lib/libnccl.so.2.* $ue_name:q/lib64/libnccl.so.2.* )
  end
else
  if ( $?NCCL_VERSION ) then
    set ue_seen = ( libnccl.so.$NCCL_VERSION:q )
  endif
  if ( $?LD_LIBRARY_PATH ) then
    foreach ue_name ( $LD_LIBRARY_PATH:as/:/ / )
      set ue_seen = ( $ue_seen:q $ue_name/libnccl.so.2.* )
    end
  endif
  set ue_seen = ( $ue_seen:q /usr/lib/*-linux-gnu/libnccl.so.2.* /usr/lib64/libnccl.so.2.* )
endif
foreach ue_name ( $ue_seen:q )
  set ue_name = $ue_name:t
  set noglob
  set ue_parts = ( $ue_name:as/./ / )
  unset noglob
  if ( $#ue_parts >= 4 && $ue_nccl == 0 ) then
    if ( "$ue_parts[3]$ue_parts[4]" !~ *[^0-9]* ) @ ue_nccl = $ue_parts[3] * 1000 + $ue_parts[4]
  endif
end
#@end
#@if nvshmem

# Whether NVSHMEM is there.
set ue_nvshmem = ''
foreach ue_name ( "${ue_view_root}/lib" "${ue_view_root}/lib64" /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu )
  if ( -e "${ue_name}/libnvshmem_host.so" || -e "${ue_name}/libnvshmem_host.so.3" ) set ue_nvshmem = 1
end
#@end
#@if roce

# tcsh cannot read /sys without starting a process.
set ue_roce_gid_index = ''
set ue_roce_hca = ''
if ( $ue_say && ! $ue_again && ! $?NCCL_IB_GID_INDEX ) then
  echo 'uenvtool: tcsh cannot look for the GID that is RoCE v2 and IPv4-mapped: NCCL_IB_GID_INDEX is not set; set it, or use bash' >>! /dev/stderr
endif
#@end
#@if cores_per_process

# The cores of a task, shared between the processes that it starts: one a GPU with torchrun.
set ue_cores_per_process = ''
set ue_tasks = 1
set ue_gpus = 1
set noglob
if ( $?SLURM_TASKS_PER_NODE ) then
  set ue_tasks = ( $SLURM_TASKS_PER_NODE:as/(/ /:as/,/ / )
endif
if ( $?SLURM_STEP_TASKS_PER_NODE ) then
  set ue_tasks = ( $SLURM_STEP_TASKS_PER_NODE:as/(/ /:as/,/ / )
endif
unset noglob
set ue_tasks = "$ue_tasks[1]"
if ( "$ue_tasks" !~ [1-9]* || "$ue_tasks" =~ *[^0-9]* ) set ue_tasks = 1
if ( $?SLURM_GPUS_ON_NODE ) then
  set ue_gpus = $SLURM_GPUS_ON_NODE:q
endif
if ( "$ue_gpus" !~ [1-9]* || "$ue_gpus" =~ *[^0-9]* ) set ue_gpus = 1
if ( $?SLURM_CPUS_PER_TASK ) then
  if ( $SLURM_CPUS_PER_TASK:q =~ [1-9]* && $SLURM_CPUS_PER_TASK:q !~ *[^0-9]* ) set ue_cores_per_process = $SLURM_CPUS_PER_TASK
else if ( $?SLURM_CPUS_ON_NODE ) then
  if ( $SLURM_CPUS_ON_NODE:q =~ [1-9]* && $SLURM_CPUS_ON_NODE:q !~ *[^0-9]* ) @ ue_cores_per_process = $SLURM_CPUS_ON_NODE / $ue_tasks
endif
if ( "$ue_cores_per_process" != '' ) then
  if ( $ue_gpus > $ue_tasks ) @ ue_cores_per_process = $ue_cores_per_process / ( $ue_gpus / $ue_tasks )
  if ( $ue_cores_per_process < 1 ) set ue_cores_per_process = 1
endif
#@end
#@if runai_gpus

set ue_runai_gpus = ''
if ( $?RUNAI_NUM_OF_GPUS ) then
  if ( $RUNAI_NUM_OF_GPUS:q !~ *[^0-9]* ) set ue_runai_gpus = $RUNAI_NUM_OF_GPUS:q
endif
#@end

#@settings

# Inside srun, or in a pod of Run:ai: what torch.distributed reads with env://.
alias uenvtool_rank_env 'echo "uenvtool: not inside srun and not in a pod of Run:ai: there is no rank here" >>! /dev/stderr'
if ( $?SLURM_PROCID ) then
  set ue_ranks = ''
  set ue_local = 0
  set ue_world = 1
  set ue_nodes = 1
  set ue_list = localhost
  set ue_port = 29500
  if ( $?SLURM_LOCALID ) then
    set ue_local = $SLURM_LOCALID:q
  endif
  if ( $?SLURM_NTASKS ) then
    set ue_world = $SLURM_NTASKS:q
  endif
  if ( $?SLURM_STEP_NUM_TASKS ) then
    set ue_world = $SLURM_STEP_NUM_TASKS:q
  endif
  if ( $?SLURM_NNODES ) then
    set ue_nodes = $SLURM_NNODES:q
  endif
  if ( $?SLURM_STEP_NUM_NODES ) then
    set ue_nodes = $SLURM_STEP_NUM_NODES:q
  endif
  if ( $?SLURM_JOB_NODELIST ) then
    set ue_list = $SLURM_JOB_NODELIST:q
  endif
  if ( $?SLURM_STEP_NODELIST ) then
    set ue_list = $SLURM_STEP_NODELIST:q
  endif
  # The first name of a list such as nid[001234-001236,001300],login1.
  set noglob
  set ue_parts = ( $ue_list:as/[/ [ /:as/]/ ] /:as/,/ , / . )
  set ue_list = ''
  while ( "$ue_parts[1]" != '.' && "$ue_parts[1]" != ',' )
    if ( "$ue_parts[1]" == '[' ) then
      shift ue_parts
      set ue_name = ( $ue_parts[1]:as/-/ / )
      set ue_list = "${ue_list}$ue_name[1]"
      while ( "$ue_parts[1]" != ']' && "$ue_parts[1]" != '.' )
        shift ue_parts
      end
    else
      set ue_list = "${ue_list}$ue_parts[1]"
    endif
    if ( "$ue_parts[1]" != '.' ) shift ue_parts
  end
  unset noglob
  # One a job, below the ports that the kernel gives out and away from 6000 (X11).
  if ( $?SLURM_JOB_ID ) then
    if ( $SLURM_JOB_ID:q =~ [0-9]* && $SLURM_JOB_ID:q !~ *[^0-9]* ) @ ue_port = 10000 + $SLURM_JOB_ID % 20000
  endif
  if ( "${SLURM_PROCID:q}${ue_local:q}${ue_world:q}${ue_nodes:q}" !~ *[^0-9]* && "$ue_list" !~ *[^A-Za-z0-9._-]* ) then
    set ue_ranks = "setenv RANK $SLURM_PROCID; setenv LOCAL_RANK $ue_local; setenv WORLD_SIZE $ue_world; setenv NNODES $ue_nodes"
    if ( ! $?MASTER_ADDR ) then
      set ue_ranks = "$ue_ranks; setenv MASTER_ADDR $ue_list"
    endif
    if ( ! $?MASTER_PORT ) then
      set ue_ranks = "$ue_ranks; setenv MASTER_PORT $ue_port"
    endif
    alias uenvtool_rank_env "$ue_ranks"
  endif
else if ( $?PET_NNODES ) then
  # Run:ai sets RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT itself; torchrun counts the GPUs' ranks.
  set ue_world = 1
  if ( $?RUNAI_NUM_OF_GPUS ) then
    set ue_world = $RUNAI_NUM_OF_GPUS:q
  endif
  if ( "${PET_NNODES:q}${ue_world:q}" !~ *[^0-9]* ) then
    @ ue_world *= $PET_NNODES
    set ue_ranks = "setenv NNODES $PET_NNODES"
    if ( ! $?WORLD_SIZE ) then
      set ue_ranks = "$ue_ranks; setenv WORLD_SIZE $ue_world"
    endif
    if ( ! $?RANK ) then
      set ue_ranks = "$ue_ranks; setenv RANK 0"
    endif
    if ( ! $?LOCAL_RANK ) then
      set ue_ranks = "$ue_ranks; setenv LOCAL_RANK 0"
    endif
    if ( ! $?MASTER_PORT ) then
      set ue_ranks = "$ue_ranks; setenv MASTER_PORT 29500"
    endif
    alias uenvtool_rank_env "$ue_ranks"
  endif
endif
set uenvtool_deactivate[1] = $ue_undo:q
alias uenvtool_deactivate "$ue_undo unset uenvtool_deactivate; unalias uenvtool_rank_env; unalias uenvtool_deactivate"
if ( $ue_globbed[1] ) set noglob
if ( ! $ue_globbed[2] ) unset nonomatch
unset ue_*
