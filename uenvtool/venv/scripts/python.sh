#!/bin/bash -p
# The Python of this overlay, written by `uenvtool venv`: the base's interpreter under this name.
# It finds pyvenv.cfg beside this folder by the name that it is started with. -p: BASH_ENV is not read.
self=$0
[[ $self == */* ]] || self=./$self
while [[ -L $self && ! -e ${self%/*}/../pyvenv.cfg ]]; do # started through a link from elsewhere
    next=$(readlink -- "$self")
    [[ $next == /* ]] || next=${self%/*}/$next
    self=$next
done
base=@BASE@ mount=@MOUNT@ prefix=@PREFIX@
if [[ ! -x $base && $mount ]]; then # its uenv may be mounted elsewhere
    IFS=, read -ra images <<<"${UENV_MOUNT_LIST:-}"
    for image in "${images[@]}"; do
        other=${image##*:}
        if [[ -x $other${base#"$mount"} ]]; then
            base=$other${base#"$mount"}
            [[ $prefix == "$mount"/* ]] && prefix=$other${prefix#"$mount"}
            export PYTHONHOME=$prefix UENVTOOL_PYTHONHOME=set # Python would look for itself at the old mount
            break
        fi
    done
fi
[[ -x $base ]] && exec -a "$self" "$base" "$@"
printf '%s\n' @MISSING@ >&2
exit 1
