# The index of the GID that is RoCE v2 and IPv4-mapped in ue_roce_gid_index, the start of its device in ue_roce_hca.
function ue_gid --no-scope-shadowing
    set -l ue_at ''
    set -l ue_differs ''
    set -l ue_wanted (string replace -r -- '^=' '' "$NCCL_IB_HCA" | string replace -r -- '[,:].*' '')
    string match -q -- '^*' "$ue_wanted"; and set ue_wanted ''
    for ue_file in $UENVTOOL_ROOT/sys/class/infiniband/*/ports/*/gids/*
        set -l ue_gid ''
        set -l ue_type ''
        test -r "$ue_file"; and read ue_gid <"$ue_file" 2>/dev/null
        string match -q -- '0000:0000:0000:0000:0000:ffff:*' "$ue_gid"; or continue
        set -l ue_parts (string match -r -- '^(.*/([^/]+)/ports/[^/]+)/gids/([0-9]+)$' "$ue_file")
        set -q ue_parts[4]; or continue
        test -r "$ue_parts[2]/gid_attrs/types/$ue_parts[4]"
        and read ue_type <"$ue_parts[2]/gid_attrs/types/$ue_parts[4]" 2>/dev/null
        string match -q -- '*RoCE v2*' "$ue_type"; or continue
        test -z "$ue_wanted"
        or string match -q -r -- '^'(string escape --style=regex -- "$ue_wanted") "$ue_parts[3]"
        or continue
        if test -z "$ue_roce_gid_index"
            set ue_roce_gid_index $ue_parts[4]
            set ue_at $ue_parts[2]
            set ue_roce_hca (string replace -r -- '[0-9]{1,2}$' '' $ue_parts[3])
        else if test "$ue_at" = "$ue_parts[2]"
            test "$ue_parts[4]" -lt "$ue_roce_gid_index"; and set ue_roce_gid_index $ue_parts[4]
        else if test "$ue_roce_gid_index" != "$ue_parts[4]"
            set ue_differs "$ue_parts[3] ($ue_parts[4])"
        end
    end
    # A fault of one node or pod is said there: by its first process.
    set -l ue_first 0
    for ue_line in LOCAL_RANK SLURM_LOCALID
        test -n "$$ue_line"; and set ue_first $$ue_line
    end
    contains -- "$ue_first$UENVTOOL_QUIET$ue_again" 0 00; or return 0
    if test -z "$ue_roce_gid_index"
        set ue_roce_note 'no GID here is RoCE v2 and IPv4-mapped: NCCL_IB_GID_INDEX is not set;'
        set ue_roce_note "$ue_roce_note NCCL before 2.21 may go over TCP"
    else if test -n "$ue_differs"
        set ue_at (string replace -r -- '.*/infiniband/' '' $ue_at)
        set ue_roce_note "the GID indexes differ: $ue_roce_gid_index of $ue_at is taken, not $ue_differs"
    end
end
