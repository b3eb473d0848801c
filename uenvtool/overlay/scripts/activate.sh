# For bash and zsh: `source bin/activate`; `deactivate` undoes it. Written by `uenvtool venv`.
# It starts no process and finds the overlay by its own place, so the overlay can be moved and mounted.
# The overlay does not need it: bin/python and the commands in bin/ work without.

deactivate() {
    [ -n "${_UENVTOOL_OLD_PATH+set}" ] && { export PATH="$_UENVTOOL_OLD_PATH"; unset _UENVTOOL_OLD_PATH; }
    [ -n "${_UENVTOOL_OLD_PS1+set}" ] && { PS1="$_UENVTOOL_OLD_PS1"; unset _UENVTOOL_OLD_PS1; }
    if [ -n "${_UENVTOOL_OLD_PYTHONPATH+set}" ]; then
        export PYTHONPATH="$_UENVTOOL_OLD_PYTHONPATH"
    elif [ -n "${_UENVTOOL_SET_PYTHONPATH:-}" ]; then
        unset PYTHONPATH
    fi
    unset _UENVTOOL_OLD_PYTHONPATH _UENVTOOL_SET_PYTHONPATH VIRTUAL_ENV VIRTUAL_ENV_PROMPT
    hash -r 2>/dev/null
    [ "${1:-}" = nondestructive ] || unset -f deactivate
    return 0
}
deactivate nondestructive

if [ -n "${ZSH_VERSION:-}" ]; then
    eval 'VIRTUAL_ENV="${(%):-%x}"'
else
    VIRTUAL_ENV="${BASH_SOURCE:-}"
fi
while [ "${VIRTUAL_ENV#./}" != "$VIRTUAL_ENV" ]; do VIRTUAL_ENV="${VIRTUAL_ENV#./}"; done
case $VIRTUAL_ENV in
    /*) ;;
    *) VIRTUAL_ENV="${PWD%/}/$VIRTUAL_ENV" ;;
esac
VIRTUAL_ENV="${VIRTUAL_ENV%/*}"
VIRTUAL_ENV="${VIRTUAL_ENV%/*}"
export VIRTUAL_ENV
export VIRTUAL_ENV_PROMPT="${VIRTUAL_ENV##*/}"

_UENVTOOL_OLD_PATH="${PATH:-}"
export PATH="$VIRTUAL_ENV/bin${PATH:+:$PATH}"
if [ -z "${VIRTUAL_ENV_DISABLE_PROMPT:-}" ] && [ -n "${PS1+set}" ]; then
    _UENVTOOL_OLD_PS1="$PS1"
    PS1="($VIRTUAL_ENV_PROMPT) $PS1"
fi

# --precedence pythonpath: this overlay, its base, then what was there, also for a Python that reads no .pth files.
_UENVTOOL_SET_PYTHONPATH=@BY_PYTHONPATH@
if [ -n "$_UENVTOOL_SET_PYTHONPATH" ]; then
    [ -n "${PYTHONPATH+set}" ] && _UENVTOOL_OLD_PYTHONPATH="$PYTHONPATH"
    export PYTHONPATH="$VIRTUAL_ENV/@SITE@"@FOLDERS@"${PYTHONPATH:+:$PYTHONPATH}"
fi
hash -r 2>/dev/null
:
