if ( $ue_failed:q != '' ) then
  echo 'uenvtool:' $ue_failed:q >>! /dev/stderr
endif
set uenvtool_deactivate[1] = $ue_undo:q
alias uenvtool_deactivate "$ue_undo unset uenvtool_deactivate; unalias uenvtool_deactivate"
if ( $ue_globbed[1] ) set noglob
if ( ! $ue_globbed[2] ) unset nonomatch
unalias ue_*
if ( $ue_failed:q == '' ) set ue_failed = 0
if ( $ue_failed:q != 0 ) set ue_failed = 1
eval "unset ue_*; set status = $ue_failed"
