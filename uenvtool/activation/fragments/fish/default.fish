# NAME VALUE: set what is unset, if there is a value.
function ue_default --no-scope-shadowing
    set -q $argv[1]; or test -z "$argv[2]"; and return 0
    ue_keep $argv[1]
    set -gx $argv[1] $argv[2]
    set -a ue_names $argv[1]
end
