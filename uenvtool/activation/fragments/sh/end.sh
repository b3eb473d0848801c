# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
[[ -z $ue_back ]] || printf -v ue_old %q "$ue_back"
eval "uenvtool_deactivate() {
  [ \"\${1-}\" != carry ] || { ue_undo='$ue_undo' ue_kept='$ue_kept' ue_back=${ue_back:+$ue_old} && return 0; }
  unset -f uenvtool_deactivate${ue_undo:+; unset -v $ue_undo}$ue_back
}
unset -f @FUNCTIONS@
if [ -n '${ZSH_VERSION-}' ]; then unset -m 'ue_*'; else eval 'unset -v \"\${!ue_@}\"'; fi
$ue_options
[[ -z '$ue_failed' ]]"
