# NAME FOLDERS: put folders in front of a list of folders, once.
function ue_prepend --no-scope-shadowing
    set ue_line (string join ':' -- $$argv[1])
    string match -q -- "$argv[2]:*" "$ue_line:"; and return 0
    ue_keep $argv[1]
    set -gx $argv[1] "$argv[2]"(string replace -r -- '^(.)' ':$1' "$ue_line")
end
