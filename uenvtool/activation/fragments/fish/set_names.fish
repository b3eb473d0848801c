if test -n "$ue_runtime" -a -z "$ue_container"
    ue_keep UENVTOOL_SET
    test -n "$ue_again"; or set -gx UENVTOOL_SET "$ue_runtime"
    set -gx UENVTOOL_SET (string join ' ' -- $UENVTOOL_SET $ue_names)
end
