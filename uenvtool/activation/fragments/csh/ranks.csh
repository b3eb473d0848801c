# For the tasks of srun: a program of sh that gives one its RANK and starts the command that follows.
set ue_name = UENVTOOL_RANK
set ue_old = ''
set ue_is = $?UENVTOOL_RANK
if ( $ue_is ) eval 'set ue_old = $UENVTOOL_RANK:q'
@KEEP@
setenv UENVTOOL_RANK @PROGRAM@
if ( $ue_failed:q != '' ) then
  setenv UENVTOOL_RANK @FAILED@
endif
