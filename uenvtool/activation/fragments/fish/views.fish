# The views of the uenvs that are loaded, `mount:name:view,...`; the base is the first that has a Python.
set -l ue_view_root ''
set -l ue_views
set -l ue_parts
for ue_line in (string split ',' -- "$UENV_VIEW")
    set ue_parts (string match -r -- '^(/[^:]*):[^:]*:([^:]*)$' "$ue_line"); or continue
    set ue_line $ue_parts[2]/env/$ue_parts[3]
    set -a ue_views $ue_line/lib $ue_line/lib64
    if test -z "$ue_view_root"; or test ! -x "$ue_view_root/bin/python" -a -x "$ue_line/bin/python"
        set ue_view_root $ue_line
    end
end
