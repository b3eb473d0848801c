set -l ue_again
set -l ue_say
set -l ue_kept
set -l ue_back
set -l ue_names
set -l ue_old
set -l ue_line
set -l ue_rank 0
if functions -q uenvtool_deactivate
    uenvtool_deactivate carry # sourced again: it goes on from there, and still knows the way back
    set ue_again 1
end
for ue_line in RANK PMI_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID
    test -n "$$ue_line"; and set ue_rank $$ue_line
end
contains -- "$ue_rank$UENVTOOL_QUIET" 0 00; and set ue_say 1
