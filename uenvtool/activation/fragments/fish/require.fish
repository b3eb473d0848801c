# NAME VALUE REASON: set a variable, also over another value; without a VALUE, remove it.
function ue_require --no-scope-shadowing
    if set -q $argv[1]
        test -n "$argv[2]" -a "$$argv[1]" = "$argv[2]"; and return 0
        set ue_old (string escape -- "$$argv[1]")
        set ue_line removed
        test -n "$argv[2]"; and set ue_line "now $argv[2]"
        test "$ue_say" = 1; and echo "uenvtool: $argv[1] was $ue_old, $ue_line: $argv[3]" >&2
    else if test -z "$argv[2]"
        return 0
    end
    ue_keep $argv[1]
    set -e $argv[1]
    test -n "$argv[2]"; and set -gx $argv[1] $argv[2]
    true
end
