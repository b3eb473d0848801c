# NAME REASON: say if a variable is missing that somebody else sets. What came along from the host does not count.
function ue_expect --no-scope-shadowing
    set -q $argv[1]; and not contains -- $argv[1] (string split ' ' -- "$ue_along"); and return 0
    ue_tell "$argv[1] is not set: $argv[2]"
end
