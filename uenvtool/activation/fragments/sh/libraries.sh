# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# FACT LIBRARY VERSION FOLDERS: in ue_FACT 2026 of version 2.26.2; 1 of a library without a version, 0 of none.
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
