# What the script set on the host goes into a container with the rest of the environment.
set ue_line (string split -m 1 ' ' -- "$UENVTOOL_SET")
if test -n "$ue_container" -a -n "$ue_line[1]" -a "$ue_line[1]" != "$ue_runtime"
    set ue_along "$ue_line[2]"
    ue_tell "set on the host for $ue_line[1], and came along: $ue_along"
end
