# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
[[ -z $ue_container || ${UENVTOOL_SET-} != *' '* ]] || ue_along=${UENVTOOL_SET#* }
[[ -z $ue_along ]] || ue_tell "set on the host for ${UENVTOOL_SET%% *}, and came along: $ue_along"
