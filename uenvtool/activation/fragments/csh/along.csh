# What the script set on the host goes into a container with the rest of the environment.
if ( $?UENVTOOL_SET && "$ue_container" != '' ) then
  set noglob
  set ue_parts = ( $UENVTOOL_SET )
  unset noglob
  if ( $#ue_parts > 1 && "$ue_parts[1]" != "$ue_runtime" ) then
    set ue_name = $ue_parts[1]:q
    shift ue_parts
    set ue_along = "$ue_parts"
    ue_tell "set on the host for $ue_name, and came along: $ue_along"
  endif
endif
