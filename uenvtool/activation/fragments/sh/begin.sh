# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
case $- in *x*) set +x && ue_options='set -x;' ;; *) ue_options='' ;; esac # a trace need not show all of this
ue_undo='' ue_back='' ue_kept='' ue_old='' ue_again='' ue_say='' ue_line='' ue_names='' ue_pass='' ue_other=''
! typeset -f uenvtool_deactivate >/dev/null || { uenvtool_deactivate carry && ue_again=1; } # sourced again
case ${SLURM_PROCID:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${RANK:-0}}}}${UENVTOOL_QUIET-} in 0 | 00) ue_say=1 ;; esac
