#@header
# shellcheck shell=bash
#
#   source @name@   sets what is unset, says what it overrides, starts no process
#   uenvtool_rank_env      inside srun: RANK, LOCAL_RANK, WORLD_SIZE, NNODES, MASTER_ADDR, MASTER_PORT
#   uenvtool_deactivate    brings the environment back as it was
#
# UENVTOOL_QUIET=1 silences it, UENVTOOL_VENV=PATH names a virtual environment, UENVTOOL_RUNTIME=NAME the runtime.
# For bash from 4.2 on, and zsh.

# Tell something on stderr, once a shell, on rank 0, unless the user wants quiet.
uenvtool_tell() {
  if [[ -n $ue_say && -z $ue_again ]]; then printf 'uenvtool: %s\n' "$1" >&2 || :; fi
}

# Remember how a variable is now, for uenvtool_deactivate; what was first remembered counts.
uenvtool_keep() {
  case " $ue_kept $ue_undo " in *" $1 "*) return 0 ;; esac
  eval "ue_old=\${$1+x}"
  if [[ -z $ue_old ]]; then
    ue_undo="$ue_undo $1"
    return 0
  fi
  # A variable that is not exported is given back as it was, where the shell can tell: bash 4.4, zsh.
  ue_old=x
  if [[ -n ${ZSH_VERSION-} ]]; then
    eval "case \${(t)$1} in *export*) ;; *) ue_old='' ;; esac"
  elif [[ ${BASH_VERSINFO[0]}${BASH_VERSINFO[1]} -ge 44 ]]; then
    eval "ue_old=\${$1@a}"
  fi
  ue_kept="$ue_kept $1"
  case $ue_old in *x*) ue_line="export $1" ;; *) ue_line="unset -v $1; $1" ;; esac
  eval "printf -v ue_old %q \"\${$1}\""
  ue_back="$ue_back
    $ue_line=$ue_old"
}

# Remember a variable that is about to be changed, and say so where it was set: NAME NEW REASON.
uenvtool_override() {
  uenvtool_keep "$1"
  if [[ -n $ue_say ]] && eval "[[ -n \${$1+x} ]]"; then
    eval "printf -v ue_old %q \"\${$1}\""
    printf 'uenvtool: %s was %s, now %s: %s\n' "$1" "$ue_old" "$2" "$3" >&2 || :
  fi
}

#@if nccl
# NCCL's version as a number, 2026 of 2.26.2, in ue_nccl; 0 of anything else.
uenvtool_number() {
  ue_nccl=0
  case $1 in [0-9]*.[0-9]*) ;; *) return 0 ;; esac
  set -- "${1%%.*}" "${1#*.}"
  case $1 in *[!0-9]*) ;; *) ue_nccl=$((10#$1 * 1000 + 10#${2%%[!0-9]*})) ;; esac
}

# The version in the name of the library in the first of some folders, `a:b:`, that has one.
uenvtool_nccl() {
  [[ -z ${ZSH_VERSION-} ]] || emulate -L sh
  ue_rest=$1
  while [[ $ue_nccl == 0 && -n $ue_rest ]]; do
    ue_dir=${ue_rest%%:*} && ue_rest=${ue_rest#*:}
    [[ -e $ue_dir/libnccl.so.2 ]] || continue
    for ue_line in "$ue_dir"/libnccl.so.[0-9]*.[0-9]*; do uenvtool_number "${ue_line##*/libnccl.so.}"; done
  done
}

#@end
#@if roce
# The index of the GID in ue_roce_gid_index, its device in ue_roce_hca; ue_differs is a device with another one.
uenvtool_gid() {
  [[ -z ${ZSH_VERSION-} ]] || emulate -L sh
  local ue_port='' ue_type='' ue_file='' ue_index='' ue_wanted=${NCCL_IB_HCA-}
  ue_wanted=${ue_wanted#=} && ue_wanted=${ue_wanted%%,*} && ue_wanted=${ue_wanted%%:*}
  case $ue_wanted in ^*) ue_wanted='' ;; esac
  for ue_file in "${UENVTOOL_SYSFS-/sys}"/class/infiniband/*/ports/*/gids/*; do
    ue_line='' && ue_type=''
    { IFS= read -r ue_line <"$ue_file"; } 2>/dev/null || :
    case $ue_line in 0000:0000:0000:0000:0000:ffff:*) ;; *) continue ;; esac
    ue_port=${ue_file%/gids/*} && ue_index=${ue_file##*/}
    { IFS= read -r ue_type <"$ue_port/gid_attrs/types/$ue_index"; } 2>/dev/null || :
    case $ue_type in *'RoCE v2'*) ;; *) continue ;; esac
    ue_dir=${ue_port%/ports/*} && ue_dir=${ue_dir##*/}
    case $ue_dir in "$ue_wanted"*) ;; *) continue ;; esac
    case $ue_index in '' | 0?* | *[!0-9]*) continue ;; esac
    if [[ -z $ue_roce_gid_index ]]; then
      ue_roce_gid_index=$ue_index && ue_gid_at=$ue_port && ue_roce_hca=${ue_dir%%[0-9]} && ue_roce_hca=${ue_roce_hca%%[0-9]}
    elif [[ $ue_gid_at == "$ue_port" ]]; then
      [[ $ue_index -ge $ue_roce_gid_index ]] || ue_roce_gid_index=$ue_index
    elif [[ $ue_roce_gid_index != "$ue_index" ]]; then
      ue_differs="$ue_dir ($ue_index)"
    fi
  done
}

#@end
# Inside srun, or in a pod of Run:ai: what torch.distributed reads with env://.
uenvtool_rank_env() {
  if [[ -n ${SLURM_PROCID-} ]]; then
    export RANK="$SLURM_PROCID" LOCAL_RANK="${SLURM_LOCALID-0}"
    export WORLD_SIZE="${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}" NNODES="${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}"
    if [[ -z ${MASTER_ADDR-} ]]; then
      # The first name of a list such as nid[001234-001236,001300],login1.
      local ue_list="${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-localhost}}" ue_first='' ue_part=''
      while [[ -n $ue_list ]]; do
        ue_part=${ue_list%%[[,]*} && ue_first=$ue_first$ue_part && ue_list=${ue_list#"$ue_part"}
        case $ue_list in "["*) ;; *) break ;; esac
        ue_list=${ue_list#"["} && ue_first=$ue_first${ue_list%%[],-]*} && ue_list=${ue_list#*"]"}
      done
      export MASTER_ADDR="$ue_first"
    fi
    if [[ -z ${MASTER_PORT-} ]]; then
      # One a job, below the ports that the kernel gives out and away from 6000 (X11).
      case ${SLURM_JOB_ID-} in
        '' | *[!0-9]*) export MASTER_PORT=29500 ;;
        *) export MASTER_PORT="$((10000 + 10#$SLURM_JOB_ID % 20000))" ;;
      esac
    fi
  elif [[ -n ${PET_NNODES-} ]]; then
    # Run:ai sets RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT itself; torchrun counts the GPUs' ranks.
    export NNODES="$PET_NNODES" RANK="${RANK:-0}" LOCAL_RANK="${LOCAL_RANK:-0}" MASTER_PORT="${MASTER_PORT:-29500}"
    case $PET_NNODES${RUNAI_NUM_OF_GPUS:-1} in
      *[!0-9]*) ;;
      *) export WORLD_SIZE="${WORLD_SIZE:-$((10#$PET_NNODES * 10#${RUNAI_NUM_OF_GPUS:-1}))}" ;;
    esac
  else
    printf 'uenvtool: not inside srun and not in a pod of Run:ai: there is no rank here\n' >&2 || :
    return 1
  fi
}

# The user's own settings of the shell must not trace every line of this, nor keep it from finding files.
ue_options=''
case $- in *x*) ue_options='set -x;' && set +x ;; esac
if [[ -n ${BASH_VERSION-} ]]; then
  case $- in *f*) ue_options="set -f; $ue_options" && set +f ;; esac
  ! shopt -q failglob || { ue_options="shopt -s failglob; $ue_options" && shopt -u failglob; }
fi
ue_undo='' ue_back='' ue_kept='' ue_old='' ue_again='' ue_say='' ue_runtime='' ue_overlay=''
ue_view_root='' ue_views='' ue_venv='' ue_rest='' ue_dir='' ue_line=''
if typeset -f uenvtool_deactivate >/dev/null; then
  uenvtool_deactivate carry # sourced again: it goes on from there, and still knows the way back
  ue_again=1
else
  # For the way back: the names of what is unset now; `ue_` before a name says that it is set.
  #@remembered
fi
case ${SLURM_PROCID:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${RANK:-0}}}}${UENVTOOL_QUIET-} in 0 | 00) ue_say=1 ;; esac

# The views of the uenvs that are loaded, `mount:name:view,...`; the base is the first that has a Python.
ue_rest=${UENV_VIEW-}
while [[ -n $ue_rest ]]; do
  ue_dir=${ue_rest%%,*}
  case $ue_rest in *,*) ue_rest=${ue_rest#*,} ;; *) ue_rest='' ;; esac
  case $ue_dir in /*:*:*) ue_dir=${ue_dir%%:*}/env/${ue_dir##*:} ;; *) continue ;; esac
  ue_views=$ue_views$ue_dir/lib:$ue_dir/lib64:
  [[ -n $ue_view_root && (-x $ue_view_root/bin/python || ! -x $ue_dir/bin/python) ]] || ue_view_root=$ue_dir
done

ue_runtime=${UENVTOOL_RUNTIME-}
case $ue_runtime in
  @runtimes@) ;;
  *)
    [[ -z $ue_runtime ]] || uenvtool_tell "UENVTOOL_RUNTIME is none of @runtimes@"
    #@if runtime
    if [[ -n ${UENV_VIEW-}${UENV_MOUNT_LIST-} ]]; then
      ue_runtime=uenv
    elif [[ -n ${APPTAINER_CONTAINER-}${SINGULARITY_CONTAINER-} || -d /.singularity.d ]]; then
      ue_runtime=apptainer
    elif [[ -n ${PET_NNODES-}${RUNAI_NUM_OF_GPUS-} ]]; then
      ue_runtime=runai
    elif [[ -n ${container-}${NVIDIA_PRODUCT_NAME-} || -e /.dockerenv || -e /run/.containerenv ]]; then
      ue_runtime=ce
    else
      ue_runtime=@runtime@ # nothing is seen: the preferred one
    fi
    #@else
    ue_runtime=@runtime@
    #@end
    ;;
esac

ue_venv=@venv@
[[ -z ${UENVTOOL_VENV+x} ]] || ue_venv=$UENVTOOL_VENV
if [[ -n $ue_venv ]]; then
  case $ue_venv in /*) ;; *) ue_venv=$PWD/$ue_venv ;; esac
  if [[ -x $ue_venv/bin/python ]]; then
    uenvtool_keep VIRTUAL_ENV
    uenvtool_keep PATH
    uenvtool_keep PYTHONHOME
    unset -v PYTHONHOME
    export VIRTUAL_ENV="$ue_venv"
    case ${PATH-}: in "$ue_venv/bin:"*) ;; *) export PATH="$ue_venv/bin${PATH:+:$PATH}" ;; esac
    # An overlay carries its base: its configuration says so.
    if [[ -r $ue_venv/pyvenv.cfg ]]; then
      while IFS= read -r ue_line || [[ -n $ue_line ]]; do
        case $ue_line in include-system-site-packages*=*[Tt]rue* | uenvtool-base*=*) ue_overlay=1 ;; esac
      done <"$ue_venv/pyvenv.cfg"
    fi
  else
    uenvtool_tell "there is no virtual environment at $ue_venv"
  fi
fi
#@if nccl

# NCCL's version, from the name of its library (libnccl.so.2.26.2); 0 where none is seen.
ue_nccl=0
if [[ $ue_runtime == uenv ]]; then
  uenvtool_nccl "$ue_views"
else
  uenvtool_number "${NCCL_VERSION-}"
  uenvtool_nccl "${LD_LIBRARY_PATH-}:/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:"
fi
#@end
#@if nvshmem

# Whether NVSHMEM is there.
ue_nvshmem=''
for ue_dir in "$ue_view_root/lib" "$ue_view_root/lib64" /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu; do
  [[ ! -e $ue_dir/libnvshmem_host.so && ! -e $ue_dir/libnvshmem_host.so.3 ]] || ue_nvshmem=1
done
#@end
#@if roce

# The GID that is both RoCE v2 and IPv4-mapped. NCCL takes one index for all devices.
ue_roce_gid_index='' ue_roce_hca='' ue_gid_at='' ue_differs=''
uenvtool_gid
if [[ -z $ue_roce_gid_index ]]; then
  uenvtool_tell 'no GID under /sys/class/infiniband is both RoCE v2 and IPv4-mapped: NCCL_IB_GID_INDEX is not set, and NCCL may fall back to TCP'
elif [[ -n $ue_differs ]]; then
  uenvtool_tell "the devices' GID indexes differ; $ue_roce_gid_index is taken, of ${ue_gid_at##*/infiniband/}; another: $ue_differs"
fi
#@end
#@if cores_per_process

# The cores of a task, shared between the processes that it starts: one a GPU with torchrun.
ue_cores_per_process=${SLURM_CPUS_PER_TASK-} ue_gpus=${SLURM_GPUS_ON_NODE-}
ue_tasks=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE-}}
ue_tasks=${ue_tasks%%[!0-9]*}
case $ue_tasks in '' | 0*) ue_tasks=1 ;; esac
case $ue_gpus in '' | 0* | *[!0-9]*) ue_gpus=1 ;; esac
if [[ -z $ue_cores_per_process ]]; then
  case ${SLURM_CPUS_ON_NODE-} in '' | *[!0-9]*) ;; *) ue_cores_per_process=$((10#$SLURM_CPUS_ON_NODE / ue_tasks)) ;; esac
fi
case $ue_cores_per_process in
  '') ;;
  *[!0-9]*) ue_cores_per_process='' ;;
  *)
    ue_cores_per_process=$((10#$ue_cores_per_process / (ue_gpus > ue_tasks ? ue_gpus / ue_tasks : 1)))
    [[ $ue_cores_per_process -ge 1 ]] || ue_cores_per_process=1
    ;;
esac
#@end
#@if runai_gpus

ue_runai_gpus=${RUNAI_NUM_OF_GPUS-}
case $ue_runai_gpus in *[!0-9]*) ue_runai_gpus='' ;; esac
#@end

#@settings

[[ -z $ue_back ]] || printf -v ue_old %q "$ue_back"
eval "uenvtool_deactivate() {
  if [ \"\${1-}\" = carry ]; then
    ue_undo='$ue_undo' ue_kept='$ue_kept' ue_back=${ue_back:+$ue_old}
    return 0
  fi
  unset -v $ue_undo
  $ue_back
  unset -f uenvtool_rank_env uenvtool_deactivate 2>/dev/null || :
}
unset -f uenvtool_tell uenvtool_keep uenvtool_override
#@if nccl
unset -f uenvtool_nccl uenvtool_number
#@end
#@if roce
unset -f uenvtool_gid
#@end
unset -v ue_undo ue_back ue_kept ue_old ue_options ue_again ue_say ue_runtime ue_overlay
unset -v ue_view_root ue_views ue_venv ue_rest ue_dir ue_line
#@if nccl
unset -v ue_nccl
#@end
#@if nvshmem
unset -v ue_nvshmem
#@end
#@if roce
unset -v ue_roce_gid_index ue_roce_hca ue_gid_at ue_differs
#@end
#@if cores_per_process
unset -v ue_cores_per_process ue_gpus ue_tasks
#@end
#@if runai_gpus
unset -v ue_runai_gpus
#@end
$ue_options"
