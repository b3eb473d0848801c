# For fish: `source bin/activate.fish`; `deactivate` undoes it. Written by `uenvtool venv`.
# It starts no process and finds the overlay by its own place, so the overlay can be moved and mounted.
# The overlay does not need it: bin/python and the commands in bin/ work without.

function deactivate -d 'Leave the overlay'
    if set -q _UENVTOOL_OLD_PATH
        set -gx PATH $_UENVTOOL_OLD_PATH
        set -e _UENVTOOL_OLD_PATH
    end
    if set -q _UENVTOOL_OLD_PYTHONPATH
        set -gx PYTHONPATH $_UENVTOOL_OLD_PYTHONPATH
    else if set -q _UENVTOOL_SET_PYTHONPATH
        set -e PYTHONPATH
    end
    set -e _UENVTOOL_OLD_PYTHONPATH
    set -e _UENVTOOL_SET_PYTHONPATH
    set -e VIRTUAL_ENV
    set -e VIRTUAL_ENV_PROMPT
    if test "$argv[1]" != nondestructive
        functions -e deactivate
    end
end
deactivate nondestructive

set -gx VIRTUAL_ENV (string replace -r '/[^/]*/[^/]*$' '' -- (builtin realpath -s (status filename)))
set -gx VIRTUAL_ENV_PROMPT (string replace -r '.*/' '' -- $VIRTUAL_ENV)
set -g _UENVTOOL_OLD_PATH $PATH
set -gx PATH $VIRTUAL_ENV/bin $PATH

# --precedence pythonpath: this overlay, its base, then what was there, also for a Python that reads no .pth files.
if test -n @BY_PYTHONPATH@
    set -g _UENVTOOL_SET_PYTHONPATH yes
    if set -q PYTHONPATH
        set -g _UENVTOOL_OLD_PYTHONPATH $PYTHONPATH
        set -gx PYTHONPATH $VIRTUAL_ENV/@SITE@@FOLDERS@:$PYTHONPATH
    else
        set -gx PYTHONPATH $VIRTUAL_ENV/@SITE@@FOLDERS@
    end
end
true
