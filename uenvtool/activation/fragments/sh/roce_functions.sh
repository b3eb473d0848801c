# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# The index of the GID that is RoCE v2 and IPv4-mapped in ue_roce_gid_index, the start of its device in ue_roce_hca.
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
  # A fault of one node or pod is said there: by its first process.
  case ${SLURM_LOCALID:-${LOCAL_RANK:-0}}${UENVTOOL_QUIET-}$ue_again in 0 | 00) ;; *) return 0 ;; esac
  if [[ -z $ue_roce_gid_index ]]; then
    ue_roce_note='no GID here is RoCE v2 and IPv4-mapped: NCCL_IB_GID_INDEX is not set; '
    ue_roce_note=$ue_roce_note'NCCL before 2.21 may go over TCP'
  elif [[ -n $ue_differs ]]; then
    ue_roce_note="the GID indexes differ: $ue_roce_gid_index of ${ue_at##*/infiniband/} is taken, not $ue_differs"
  fi
}
