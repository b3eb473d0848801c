#!/usr/bin/env bash
# The template of activation scripts for bash and zsh. A script contains the sections that its system needs, in the
# order of template.py. A line "#: NAME" begins a section, and @MARKS@ are placeholders.
# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154,SC2288,SC2317,SC2329

#: tell
ue_tell() { [[ -z $ue_say || -n $ue_again ]] || printf 'uenvtool: %s\n' "$1" >&2 || :; } # on rank 0, once

#: keep
# NAME: save the current state of a variable for uenvtool_deactivate; only the first call for a variable counts.
ue_keep() {
  case " $ue_kept $ue_undo " in *" $1 "*) return 0 ;; esac
  [[ -v $1 ]] || { ue_undo+=" $1" && return 0; }
  ue_kept+=" $1" ue_old=x # an unexported variable stays unexported in bash 4.4 or newer and in zsh
  [[ -z ${ZSH_VERSION-} ]] || eval "[[ \${(t)$1} == *export* ]] || ue_old=''"
  [[ ${BASH_VERSINFO[0]-0}${BASH_VERSINFO[1]-0} -lt 44 ]] || eval "ue_old=\${$1@a}"
  case $ue_old in *x*) ue_line="export $1" ;; *) ue_line="unset -v $1; $1" ;; esac
  eval "printf -v ue_old %q \"\${$1}\"" && ue_back+=$'\n'"  $ue_line=$ue_old"
}

#: require
# NAME VALUE REASON: set a variable and replace any other value; with an empty VALUE, unset it.
ue_require() {
  eval "ue_line=\${$1+x}\${$1-}"
  [[ $ue_line != "${2:+x$2}" ]] || return 0
  [[ -z $ue_say || -z $ue_line ]] ||
    printf 'uenvtool: %s was %q, %s: %s\n' "$1" "${ue_line#x}" "now ${2:-unset}" "$3" >&2 || :
  ue_keep "$1" && unset -v "$1"
  [[ -z $2 ]] || export "$1=$2"
}

#: remove
ue_remove() { ue_require "$1" '' "$2"; }

#: default
# NAME VALUE: set a variable if it is unset and VALUE is not empty.
ue_default() { [[ -z $2 ]] || [[ -v $1 ]] || { ue_undo+=" $1" && export "$1=$2"; }; }

#: default_set
# NAME VALUE: set a variable if it is unset and VALUE is not empty. In the first pass over a set, only record a variable
# that has another value.
ue_default() {
  if [[ -v $1 ]]; then
    [[ $ue_pass != look ]] || eval "[[ \${$1} == \"\$2\" ]]" || ue_other=$1
  elif [[ $ue_pass != look && -z $ue_other && -n $2 ]]; then
    ue_undo+=" $1" ue_names+=" $1" && export "$1=$2"
  fi
}
# SET [VARIABLE WORD HINT]: end a set; print why it was not set, or that VARIABLE of the job lacks WORD.
ue_together() {
  if [[ -n $ue_other ]]; then
    ue_tell "$ue_other has another value, so the other variables of the set $1 are not set"
  elif [[ -n ${SLURM_JOB_ID-} && -n ${2-} ]]; then
    eval "[[ \${$2-} == *\"\$3\"* ]]" || ue_tell "the set $1 requires $3 in $2: $4"
  fi
  ue_pass='' ue_other=''
}

#: at_most
# NAME NUMBER REASON: set a variable if it is unset or a larger number.
ue_at_most() {
  eval "ue_line=\${$1-x}"
  case $ue_line in '' | *[!0-9]*) ;; *) ((10#$ue_line <= $2)) || ue_require "$@" ;; esac
  ue_default "$1" "$2"
}

#: prepend
# NAME DIRECTORIES: prepend directories, if any, to a list of directories, once.
ue_prepend() {
  [[ -n $2 ]] || return 0
  eval "ue_line=\${$1-}"
  case $ue_line: in "$2:"*) ;; *) set -- "$1" "$2${ue_line:+:$ue_line}" && ue_keep "$1" && export "$1=$2" ;; esac
}

#: here
# NAME MESSAGE: print a message about this node or pod, unless the user has set the variable.
ue_here() { eval "[[ -n \${$1+x} || -z \$2 ]]" || printf 'uenvtool: %s\n' "$2" >&2 || :; }

#: expect
# NAME REASON: print a message if a variable that another program should set is unset or inherited from the host.
ue_expect() {
  case " $ue_along " in *" $1 "*) ;; *) eval "[[ -z \${$1+x} ]]" || return 0 ;; esac
  ue_tell "$1 is not set: $2"
}

#: libraries
# FACT LIBRARY VERSION DIRECTORIES: set ue_FACT to 2026 for version 2.26.2, 1 for an unknown version, 0 for no library.
ue_library() {
  [[ -z ${ZSH_VERSION-} ]] || emulate -L sh
  ue_found=$3 ue_rest=$4: ue_file='' ue_is=0
  while [[ $ue_found != [0-9]*.[0-9]* && $ue_is == 0 && -n $ue_rest ]]; do
    ue_file=${ue_rest%%:*}/$2 ue_rest=${ue_rest#*:}
    [[ ! -e $ue_file && ! -e $ue_file.2 && ! -e $ue_file.3 ]] || ue_is=1
    [[ $ue_is == 0 ]] || for ue_file in "$ue_file".[0-9]*.[0-9]*; do ue_found=${ue_file##*"$2".}; done
  done
  ue_rest=${ue_found#*.} && ue_rest=${ue_rest%%[!0-9]*}
  [[ $ue_found != [0-9]*.[0-9]* ]] || ue_is=$((10#${ue_found%%[!0-9]*} * 1000 + 10#$ue_rest))
  eval "ue_$1=$ue_is"
}

#: roce_functions
# Set ue_roce_gid_index to the index of the RoCE v2 GID with an IPv4-mapped address, ue_roce_hca to its device's prefix.
ue_gid() {
  [[ -z ${ZSH_VERSION-} ]] || emulate -L sh
  local ue_port='' ue_type='' ue_file='' ue_index='' ue_at='' ue_differs='' ue_dir='' ue_wanted=${NCCL_IB_HCA-}
  ue_wanted=${ue_wanted#=} && ue_wanted=${ue_wanted%%,*} && ue_wanted=${ue_wanted%%:*}
  case $ue_wanted in ^*) ue_wanted='' ;; esac
  for ue_file in "${UENVTOOL_ROOT-}"/sys/class/infiniband/*/ports/*/gids/*; do
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
      ue_roce_gid_index=$ue_index ue_at=$ue_port ue_roce_hca=${ue_dir%%[0-9]} && ue_roce_hca=${ue_roce_hca%%[0-9]}
    elif [[ $ue_at == "$ue_port" ]]; then
      [[ $ue_index -ge $ue_roce_gid_index ]] || ue_roce_gid_index=$ue_index
    elif [[ $ue_roce_gid_index != "$ue_index" ]]; then
      ue_differs="$ue_dir ($ue_index)"
    fi
  done
  # The first process of each node or pod reports problems of that node or pod.
  case ${SLURM_LOCALID:-${LOCAL_RANK:-0}}${UENVTOOL_QUIET-}$ue_again in 0 | 00) ;; *) return 0 ;; esac
  if [[ -z $ue_roce_gid_index ]]; then
    ue_roce_note='no RoCE v2 GID with an IPv4-mapped address was found, so NCCL_IB_GID_INDEX is not set; '
    ue_roce_note=$ue_roce_note'NCCL older than 2.21 may use TCP'
  elif [[ -n $ue_differs ]]; then
    ue_roce_note="the GID indexes of the devices differ: using $ue_roce_gid_index of ${ue_at##*/infiniband/}, "
    ue_roce_note=$ue_roce_note"not $ue_differs"
  fi
}

#: begin
case $- in *x*) set +x && ue_options='set -x;' ;; *) ue_options='' ;; esac # keep this script out of a trace
ue_line='' # the first line of the script that runs this code: this file, or a job that evaluates it
[[ ${BASH_SOURCE[0]-} != "$0" ]] || { IFS= read -r ue_line <"$0"; } 2>/dev/null || :
if [[ $ue_line == '# '*': '* || (${ZSH_EVAL_CONTEXT-} == toplevel && $- != *i*) ]]; then
  printf 'uenvtool: a script that is run instead of sourced has no effect: source %s\n' "$0" >&2
  exit 2
fi
ue_undo='' ue_back='' ue_kept='' ue_old='' ue_again='' ue_say='' ue_line='' ue_names='' ue_pass='' ue_other=''
! typeset -f uenvtool_deactivate >/dev/null || { uenvtool_deactivate carry && ue_again=1; } # sourced before
case ${SLURM_PROCID:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${RANK:-0}}}}${UENVTOOL_QUIET-} in 0 | 00) ue_say=1 ;; esac

#: globbing
[[ -n ${ZSH_VERSION-} ]] || case $- in *f*) set +f && ue_options="set -f; $ue_options" ;; esac # globs must work
[[ -n ${ZSH_VERSION-} ]] || ! shopt -q failglob || { shopt -u failglob && ue_options="shopt -s failglob; $ue_options"; }

#: which_runtime
# Find the runtime; the signs of a container take precedence over variables inherited from the host.

#: runtime
ue_runtime=@RUNTIME@ ue_container='' ue_image=@IMAGE@ ue_along=''

#: in_container
if @SHOWN@; then
  ue_runtime=@NAME@ ue_container=1
fi

#: in_shell
[[ -n $ue_runtime ]] || { @SHOWN@ && ue_runtime=@NAME@; } || :

#: named_runtime
case ${UENVTOOL_RUNTIME-} in @CHOICES@) ue_runtime=$UENVTOOL_RUNTIME ;;
  ?*) ue_tell "UENVTOOL_RUNTIME=$UENVTOOL_RUNTIME: must be one of @NAMES@" ;; esac
[[ -n $ue_runtime ]] || ue_tell @NOTHING@

#: along
[[ -z $ue_container || ${UENVTOOL_SET-} != *' '* ]] || ue_along=${UENVTOOL_SET#* }
[[ -z $ue_along ]] || ue_tell "inherited from the host, where they were set for ${UENVTOOL_SET%% *}: $ue_along"

#: views
# The views of the loaded uenvs, as `mount:name:view,...`; the base is the first view that has a Python.
ue_rest=${UENV_VIEW-}, ue_view_root='' ue_views=''
while [[ $ue_rest == *,* ]]; do
  ue_dir=${ue_rest%%,*} && ue_rest=${ue_rest#*,}
  case $ue_dir in /*:*:*) ue_dir=${ue_dir%%:*}/env/${ue_dir##*:} ;; *) continue ;; esac
  [[ ! -e $ue_dir/lib ]] || ue_views+=$ue_dir/lib:
  [[ ! -e $ue_dir/lib64 ]] || ue_views+=$ue_dir/lib64:
  [[ -n $ue_view_root && (-x $ue_view_root/bin/python || ! -x $ue_dir/bin/python) ]] || ue_view_root=$ue_dir
done

#: venv
ue_overlay='' ue_venv_site='' ue_failed='' ue_venv=${UENVTOOL_VENV-@VENV@}
case $ue_venv in '' | /*) ;; *) ue_venv=$PWD/$ue_venv ;; esac
if [[ -n $ue_venv && ! -x $ue_venv/bin/python ]]; then
  ue_failed=1 && printf 'uenvtool: virtual environment not found: %s\n' "$ue_venv" >&2 || :
elif [[ -n $ue_venv ]]; then
  ue_keep VIRTUAL_ENV && ue_keep PYTHONHOME && unset -v PYTHONHOME && export VIRTUAL_ENV="$ue_venv"
  case ${PATH-}: in "$ue_venv/bin:"*) ;; *) printf -v ue_old %q ":$ue_venv/bin:" # deactivating removes only this
    export PATH="$ue_venv/bin${PATH:+:$PATH}" && ue_back+=$'\n'"  ue_old=$ue_old PATH=:\${PATH-}:"
    ue_back+=" && PATH=\${PATH/\"\$ue_old\"/:} && PATH=\${PATH#:} && PATH=\${PATH%:} && unset -v ue_old" ;; esac
  [[ ! -r $ue_venv/pyvenv.cfg ]] || while IFS= read -r ue_line || [[ -n $ue_line ]]; do case $ue_line in # on a base?
    version*=*[0-9].[0-9]*) ue_rest=${ue_line#*.} && ue_rest=3.${ue_rest%%[!0-9]*}
      ue_venv_site=$ue_venv/lib/python$ue_rest/site-packages ;;
    include-system-site-packages*=*[Tt]rue*) ue_overlay=1 ;;
    uenvtool-base*=*) ue_overlay=1 ue_venv_site='' ;; esac; done <"$ue_venv/pyvenv.cfg" # it orders its packages itself
fi

#: of_views
[[ ${ue_runtime-@NAME@} != @NAME@ ]] || ue_folders=$ue_views

#: of_library
ue_library @FACT@ @LIBRARY@ @VERSION@ "$ue_folders"

#: nodes
ue_nodes=${SLURM_JOB_NUM_NODES:-${SLURM_NNODES-}} # the nodes of the job, or nothing outside a job

#: cores
# The cores of a task, divided by its processes: torchrun starts one process per GPU.
ue_tasks=${SLURM_STEP_TASKS_PER_NODE:-${SLURM_TASKS_PER_NODE:-1}} && ue_tasks=${ue_tasks%%[!0-9]*} ue_rest=''
ue_gpus=${SLURM_GPUS_ON_NODE:-1} ue_all=${SLURM_CPUS_ON_NODE:-0} ue_cores=${SLURM_CPUS_PER_TASK:-0}
case :$ue_tasks:$ue_gpus:$ue_all:$ue_cores: in :0* | *[!0-9:]* | *::* | *:0[0-9]*) ue_all=0 ue_gpus=0 ue_cores=0 ;; esac
if [[ $ue_cores == 0 && $ue_all != 0 ]]; then # the CPUs that the kernel allows, such as 0-7,144
  # The list is only meaningful in a step of srun, where Slurm has bound the task.
  [[ -z ${SLURM_STEP_NUM_TASKS-} || ! -r ${UENVTOOL_ROOT-}/proc/self/status ]] || while IFS= read -r ue_line; do
    case $ue_line in Cpus_allowed_list:*[0-9]) ue_rest=${ue_line##*[!0-9,-]}, ;; esac
  done <"${UENVTOOL_ROOT-}/proc/self/status"
  while [[ -n $ue_rest ]]; do
    ue_line=${ue_rest%%,*} && ue_rest=${ue_rest#*,} && ue_cores=$((ue_cores + ${ue_line##*-} - ${ue_line%%-*} + 1))
  done
  if [[ $ue_cores == 0 || $((ue_cores * ue_tasks)) -gt $ue_all ]]; then # a guess of at most 8, as documented
    ue_cores=$((ue_all / ue_tasks > 8 ? 8 : ue_all / ue_tasks))
    [[ -n ${OMP_NUM_THREADS+x} ]] || ue_tell 'OMP_NUM_THREADS is a guess: set --cpus-per-task (-c)'
  fi
fi
[[ $ue_gpus -le ${ue_tasks:-0} ]] || ue_cores=$(((ue_cores * ue_tasks + ue_gpus - 1) / ue_gpus))
[[ $ue_cores != 0 ]] || ue_cores=''

#: gpus
ue_runai_gpus=${RUNAI_NUM_OF_GPUS-}
case $ue_runai_gpus in *[!0-9]*) ue_runai_gpus='' ;; esac

#: temporary
ue_temporary=/tmp/${USER:-${UID-}}${SLURM_JOB_ID:+-$SLURM_JOB_ID}

#: roce
ue_roce_gid_index='' ue_roce_hca=@HCA@ ue_roce_note=''
ue_gid

#: set_names
ue_line=${ue_again:+${UENVTOOL_SET-}} && ue_line=${ue_line:-$ue_runtime}$ue_names # containers inherit it
[[ -n $ue_container || -z $ue_runtime ]] || { ue_keep UENVTOOL_SET && export UENVTOOL_SET="$ue_line"; }

#: ranks
# A program for sh that sets RANK and the other variables of a task of srun, and then starts the command after it.
ue_keep UENVTOOL_RANK
export UENVTOOL_RANK=@PROGRAM@
[[ -z $ue_failed ]] || UENVTOOL_RANK=@FAILED@

#: end
[[ -z $ue_back ]] || printf -v ue_old %q "$ue_back"
eval "uenvtool_deactivate() {
  [ \"\${1-}\" != carry ] || { ue_undo='$ue_undo' ue_kept='$ue_kept' ue_back=${ue_back:+$ue_old} && return 0; }
  unset -f uenvtool_deactivate${ue_undo:+; unset -v $ue_undo}$ue_back
}
unset -f @FUNCTIONS@
if [ -n '${ZSH_VERSION-}' ]; then unset -m 'ue_*'; else eval 'unset -v \"\${!ue_@}\"'; fi
$ue_options
[[ -z '$ue_failed' ]]"
