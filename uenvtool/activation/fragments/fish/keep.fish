# NAME: remember how a variable is now, for the way back; what is remembered first counts.
function ue_keep --no-scope-shadowing
    contains -- $argv[1] $ue_kept; and return 0
    set -a ue_kept $argv[1]
    if not set -qg $argv[1]
        set -a ue_back "set -eg $argv[1]"
        return 0
    end
    set ue_old (string escape -- $$argv[1])
    if set -qgx $argv[1]
        set -a ue_back "set -gx $argv[1] $ue_old"
    else
        set -a ue_back "set -gu $argv[1] $ue_old"
    end
end
