test -z "$ue_failed"; or echo "uenvtool: $ue_failed" >&2
set -l ue_body (string join ';' -- $ue_back)
set -l ue_carried (string escape -- $ue_back)
eval "function uenvtool_deactivate --no-scope-shadowing
    if test \"\$argv[1]\" = carry
        set ue_kept $ue_kept
        set ue_back $ue_carried
        return 0
    end
    $ue_body
    functions -e uenvtool_deactivate
end"
functions -e @FUNCTIONS@
test -z "$ue_failed"
