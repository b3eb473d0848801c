# NAME NUMBER REASON: set what is unset, and replace a larger number.
function ue_at_most --no-scope-shadowing
    string match -q -r -- '^[0-9]+$' "$$argv[1]"; and test "$$argv[1]" -gt $argv[2]; and ue_require $argv
    ue_default $argv[1] $argv[2]
end
