# Remember how the variable ue_name is now, for the way back; a list cannot hold an empty word.
if ( "$ue_undo" !~ *\ ${ue_name}[\ \;]* ) then
  if ( ! $ue_is ) then
    set ue_undo = "$ue_undo unsetenv $ue_name;"
  else if ( $ue_old:q == '' ) then
    set ue_undo = "$ue_undo setenv $ue_name '';"
  else
    set uenvtool_deactivate = ( $uenvtool_deactivate:q $ue_old:q )
    set ue_undo = "$ue_undo setenv $ue_name "\$"uenvtool_deactivate[$#uenvtool_deactivate]:q;"
  endif
endif
