# FACT LIBRARY VERSION FOLDERS...: a version in ue_FACT as a number, 2026 of 2.26.2: the one given, else that of the
# library in the first of the folders that has it; 1 if its name has none, 0 if there is no library.
function ue_library --no-scope-shadowing
    set -l ue_found (string match -r -- '^[0-9]+\.[0-9]+' "$argv[3]")
    set -l ue_any 0
    for ue_line in $argv[4..-1]
        test -z "$ue_found" -a "$ue_any" = 0 -a -n "$ue_line"; or continue
        for ue_file in $ue_line/$argv[2] $ue_line/$argv[2].*
            test -e "$ue_file"; or continue
            set ue_any 1
            set -l ue_parts (string match -r -- '\.so\.([0-9]+\.[0-9]+)' "$ue_file"); and set ue_found $ue_parts[2]
        end
    end
    set ue_$argv[1] $ue_any
    test -n "$ue_found"; and set ue_$argv[1] (string replace . ' * 1000 + ' $ue_found | math)
    true
end
