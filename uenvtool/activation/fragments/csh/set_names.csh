if ( "$ue_runtime" != '' && "$ue_container" == '' ) then
  set ue_name = UENVTOOL_SET
  set ue_old = ''
  set ue_is = $?UENVTOOL_SET
  if ( $ue_is ) eval 'set ue_old = $UENVTOOL_SET:q'
  @KEEP@
  if ( $ue_again && $ue_is ) then
    setenv UENVTOOL_SET $ue_old:q" $ue_names"
  else
    setenv UENVTOOL_SET "$ue_runtime $ue_names"
  endif
endif
