# For the tasks of srun: a program of sh that gives one its RANK and starts the command that follows.
ue_keep UENVTOOL_RANK
set -gx UENVTOOL_RANK @PROGRAM@
test -z "$ue_failed"; or set -gx UENVTOOL_RANK @FAILED@
