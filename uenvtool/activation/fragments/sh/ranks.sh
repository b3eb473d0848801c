# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# For each task of srun: a program of sh that gives it its RANK and starts the command that follows.
ue_keep UENVTOOL_RANK
export UENVTOOL_RANK=@PROGRAM@
[[ -z $ue_failed ]] || UENVTOOL_RANK=@FAILED@
