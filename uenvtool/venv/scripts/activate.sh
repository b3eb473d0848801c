# For bash and zsh: `source bin/activate`; `deactivate` undoes it. Written by `uenvtool venv`.
# It finds the overlay by its own place, so the overlay can be moved and mounted, and starts no process for that.
# The overlay does not need it: bin/python and the commands in bin/ work without.

_uenvtool_here=''
if [ -n "${ZSH_VERSION:-}" ]; then
    eval '_uenvtool_here="${${funcsourcetrace[1]}%:*}"'
else
    _uenvtool_here="${BASH_SOURCE:-}"
fi
[ ! -h "$_uenvtool_here" ] || _uenvtool_here=$(readlink -f -- "$_uenvtool_here") # a link to it alone costs a process
while [ "${_uenvtool_here#./}" != "$_uenvtool_here" ]; do _uenvtool_here="${_uenvtool_here#./}"; done
case $_uenvtool_here in
    /*) ;;
    *) _uenvtool_here="${PWD%/}/$_uenvtool_here" ;;
esac
case $_uenvtool_here in
    */activate) _uenvtool_here="${_uenvtool_here%/*}" && _uenvtool_here="${_uenvtool_here%/*}" ;;
    *) _uenvtool_here='' ;; # eval, or a shell that does not say which file it reads
esac

if [ -z "$_uenvtool_here" ] || [ ! -f "$_uenvtool_here/pyvenv.cfg" ]; then
    unset _uenvtool_here
    echo 'uenvtool: activate cannot tell where it lies: `source PATH/bin/activate` in bash or zsh, without eval;' >&2
    echo 'hint: PATH/bin/python and the commands beside it need no activation' >&2
    false
else
    [ -z "${_UENVTOOL_OVERLAY:-}" ] || ! typeset -f deactivate >/dev/null || deactivate # of this overlay or another one
    deactivate() {
        _uenvtool_path=":${PATH:-}:" # its own entry alone is taken out: PATH may have changed since
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
        hash -r 2>/dev/null || : # `set +h` makes it fail
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
