# NAME MESSAGE: say something of this node or pod, unless the user has set the variable.
function ue_here --no-scope-shadowing
    test -n "$argv[2]"; and not set -q $argv[1]; and echo "uenvtool: $argv[2]" >&2
    true
end
