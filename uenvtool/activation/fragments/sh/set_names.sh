# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
ue_line=${ue_again:+${UENVTOOL_SET-}} && ue_line=${ue_line:-$ue_runtime}$ue_names # comes along into a container
[[ -n $ue_container || -z $ue_runtime ]] || { ue_keep UENVTOOL_SET && export UENVTOOL_SET="$ue_line"; }
