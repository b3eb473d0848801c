# For fish: `source bin/activate.fish`; `deactivate` undoes it. Written by `uenvtool venv`.
# It starts no process and finds the overlay by its own place, so the overlay can be moved and mounted.
# The overlay does not need it: bin/python and the commands in bin/ work without.

set -l file (status filename | string collect)
test -L "$file"; and set file (builtin realpath -- $file | string collect)
set file (builtin realpath -s -- $file | string collect)
set -l here (string replace -r '/[^/]*/[^/]*$' '' -- $file | string collect)
if not test -f "$here/pyvenv.cfg"; or not string match -q '*/activate.fish' -- $file
    echo 'uenvtool: activate.fish cannot tell where it lies: source PATH/bin/activate.fish, without eval;' >&2
    echo 'hint: PATH/bin/python and the commands beside it need no activation' >&2
    return 1
end
set -q _UENVTOOL_OVERLAY; and functions -q deactivate; and deactivate # of this overlay or another one

function deactivate -d 'Leave the overlay'
    # Its own entry alone is taken out: PATH may have changed since.
    contains -- $_UENVTOOL_OVERLAY/bin $PATH
    and set -e PATH[(contains -i -- $_UENVTOOL_OVERLAY/bin $PATH)]
    if set -q _UENVTOOL_OLD_PYTHONPATH
        set -gx PYTHONPATH $_UENVTOOL_OLD_PYTHONPATH
    else if set -q _UENVTOOL_SET_PYTHONPATH
        set -e PYTHONPATH
    end
    set -e _UENVTOOL_OLD_PYTHONPATH
    set -e _UENVTOOL_SET_PYTHONPATH
    if test "$VIRTUAL_ENV" = "$_UENVTOOL_OVERLAY"
        set -e VIRTUAL_ENV
        set -e VIRTUAL_ENV_PROMPT
    end
    set -e _UENVTOOL_OVERLAY
    functions -e deactivate
end

set -g _UENVTOOL_OVERLAY $here
set -gx VIRTUAL_ENV $here
set -gx VIRTUAL_ENV_PROMPT (string replace -r '(?s).*/' '' -- $VIRTUAL_ENV | string collect)
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
