# The options of the user's shell must not keep this from finding files. uenvtool_deactivate holds the way back.
set ue_globbed = ( $?noglob $?nonomatch )
unset noglob
set nonomatch
set ue_undo = ' ' # a list cannot hold an empty word
set ue_names = ( )
set ue_failed = ''
set ue_again = $?uenvtool_deactivate
if ( $ue_again ) then
  # Sourced again: it goes on from there, and still knows the way back.
  set ue_undo = $uenvtool_deactivate[1]:q
else
  set uenvtool_deactivate = ( 'what it was' )
endif
set ue_rank = 0
foreach ue_name ( RANK PMI_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID )
  eval 'set ue_is = $?'$ue_name
  if ( $ue_is ) eval 'set ue_rank = $'$ue_name':q'
end
set ue_say = 0
if ( $ue_rank:q == 0 ) set ue_say = 1
if ( $?UENVTOOL_QUIET ) then
  if ( $UENVTOOL_QUIET:q != '' && $UENVTOOL_QUIET:q != 0 ) set ue_say = 0
endif
set ue_root = ''
if ( $?UENVTOOL_ROOT ) then
  set ue_root = $UENVTOOL_ROOT:q
endif
