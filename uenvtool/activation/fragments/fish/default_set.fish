# NAME VALUE: set what is unset, if there is a value. In the first pass over a set: note what is set otherwise.
function ue_default --no-scope-shadowing
    if set -q $argv[1]
        test "$ue_pass" = look; and test "$$argv[1]" != "$argv[2]"; and set ue_other $argv[1]
    else if test "$ue_pass" != look -a -z "$ue_other" -a -n "$argv[2]"
        ue_keep $argv[1]
        set -gx $argv[1] $argv[2]
        set -a ue_names $argv[1]
    end
    true
end
# SET [VARIABLE WORD HINT]: the end of a set; say why it was not set, or that the job lacks what it needs.
function ue_together --no-scope-shadowing
    if test -n "$ue_other"
        ue_tell "$ue_other is set otherwise, so nothing of the set $argv[1] is added"
    else if test -n "$SLURM_JOB_ID" -a -n "$argv[2]"; and not string match -q -- "*$argv[3]*" "$$argv[2]"
        ue_tell "the set $argv[1] needs $argv[3] in $argv[2]: $argv[4]"
    end
    set ue_pass
    set ue_other
end
