set -l ue_overlay
set -l ue_failed
set -l ue_venv @VENV@
set -q UENVTOOL_VENV; and set ue_venv "$UENVTOOL_VENV"
test -z "$ue_venv"; or string match -q -- '/*' "$ue_venv"; or set ue_venv "$PWD/$ue_venv"
if test -n "$ue_venv" -a ! -x "$ue_venv/bin/python"
    set ue_failed "there is no virtual environment at $ue_venv"
else if test -n "$ue_venv"
    ue_keep VIRTUAL_ENV
    ue_keep PYTHONHOME
    set -eg PYTHONHOME
    set -gx VIRTUAL_ENV "$ue_venv"
    if test "$PATH[1]" != "$ue_venv/bin" # the way back takes it out alone: the rest may have changed by then
        set -gx PATH "$ue_venv/bin" $PATH
        set ue_old (string escape -- "$ue_venv/bin")
        set -a ue_back "contains -- $ue_old \$PATH; and set -e PATH[(contains -i -- $ue_old \$PATH)]"
    end
    test -r "$ue_venv/pyvenv.cfg"; and while read ue_line # does it carry its base?
        string match -q -i -r -- '^(include-system-site-packages.*=.*true|uenvtool-base.*=)' "$ue_line"
        and set ue_overlay 1
    end <"$ue_venv/pyvenv.cfg"
end
