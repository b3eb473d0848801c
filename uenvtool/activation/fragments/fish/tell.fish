# Say something on stderr: on rank 0, the first time that a shell sources this.
function ue_tell --no-scope-shadowing
    test "$ue_say$ue_again" = 1; and echo "uenvtool: $argv[1]" >&2
    true
end
