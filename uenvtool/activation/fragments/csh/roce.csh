# tcsh cannot read /sys without starting a process. Each node or pod says so, by its first process.
set ue_roce_gid_index = ''
set ue_roce_hca = @HCA@
set ue_roce_note = 'tcsh cannot look for the GID that is RoCE v2 and IPv4-mapped: set NCCL_IB_GID_INDEX, or use bash'
if ( $ue_again ) set ue_roce_note = ''
if ( $?LOCAL_RANK ) then
  if ( $LOCAL_RANK:q != 0 ) set ue_roce_note = ''
endif
if ( $?UENVTOOL_QUIET ) then
  if ( $UENVTOOL_QUIET:q != '' && $UENVTOOL_QUIET:q != 0 ) set ue_roce_note = ''
endif
