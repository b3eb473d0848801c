# Activates this overlay in bash or zsh: `source bin/activate`. `deactivate` undoes it. Written by `uenvtool venv`.
# The script finds the overlay by its own path and starts no process, so the overlay can be moved and mounted.
# Activation is optional: bin/python and the commands in bin/ work without it.

_uenvtool_here=''
if [ -n "${ZSH_VERSION:-}" ]; then
    eval '_uenvtool_here="${${funcsourcetrace[1]}%:*}"'
else
    _uenvtool_here="${BASH_SOURCE:-}"
fi
[ ! -h "$_uenvtool_here" ] || _uenvtool_here=$(readlink -f -- "$_uenvtool_here") # only a symlink costs a process
while [ "${_uenvtool_here#./}" != "$_uenvtool_here" ]; do _uenvtool_here="${_uenvtool_here#./}"; done
case $_uenvtool_here in
    /*) ;;
    *) _uenvtool_here="${PWD%/}/$_uenvtool_here" ;;
esac
case $_uenvtool_here in
    */activate) _uenvtool_here="${_uenvtool_here%/*}" && _uenvtool_here="${_uenvtool_here%/*}" ;;
    *) _uenvtool_here='' ;; # eval, or a shell that does not provide the path of the sourced file
esac

if [ -z "$_uenvtool_here" ] || [ ! -f "$_uenvtool_here/pyvenv.cfg" ]; then
    unset _uenvtool_here
    echo 'uenvtool: activate cannot find its overlay: run `source PATH/bin/activate` in bash or zsh, without eval' >&2
    echo 'hint: PATH/bin/python and the other commands in PATH/bin need no activation' >&2
    false
else
    [ -z "${_UENVTOOL_OVERLAY:-}" ] || ! typeset -f deactivate >/dev/null || deactivate # the active one first
    deactivate() {
        _uenvtool_path=":${PATH:-}:" # remove only the overlay's entry, because PATH may have changed since
        case $_uenvtool_path in
            *":$_UENVTOOL_OVERLAY/bin:"*)
                _uenvtool_path=${_uenvtool_path%%":$_UENVTOOL_OVERLAY/bin:"*}:${_uenvtool_path#*":$_UENVTOOL_OVERLAY/bin:"}
                _uenvtool_path=${_uenvtool_path#:}
                export PATH="${_uenvtool_path%:}"
                ;;
        esac
        [ "${VIRTUAL_ENV:-}" != "$_UENVTOOL_OVERLAY" ] || unset VIRTUAL_ENV VIRTUAL_ENV_PROMPT
        [ -n "${_UENVTOOL_OLD_PS1+set}" ] && { PS1="$_UENVTOOL_OLD_PS1"; unset _UENVTOOL_OLD_PS1; }
        unset _UENVTOOL_OVERLAY _uenvtool_path
        hash -r 2>/dev/null || : # it fails after `set +h`
        unset -f deactivate
        return 0
    }
    _UENVTOOL_OVERLAY="$_uenvtool_here"
    unset _uenvtool_here
    export VIRTUAL_ENV="$_UENVTOOL_OVERLAY"
    export VIRTUAL_ENV_PROMPT="${VIRTUAL_ENV##*/}"
    export PATH="$VIRTUAL_ENV/bin${PATH:+:$PATH}"
    if [ -z "${VIRTUAL_ENV_DISABLE_PROMPT:-}" ] && [ -n "${PS1+set}" ]; then
        _UENVTOOL_OLD_PS1="$PS1"
        PS1="($VIRTUAL_ENV_PROMPT) $PS1"
    fi
    hash -r 2>/dev/null || :
fi
