#!/bin/bash -p
# The Python of this overlay: starts the base's interpreter under this file's name. Written by `uenvtool venv`.
# The interpreter uses that name to find pyvenv.cfg in the parent directory. -p: bash does not read BASH_ENV.
self=$0
[[ $self == */* ]] || self=./$self
while [[ -L $self && ! -e ${self%/*}/../pyvenv.cfg ]]; do # started through a symlink elsewhere
    next=$(readlink -- "$self")
    [[ $next == /* ]] || next=${self%/*}/$next
    self=$next
done
base=@BASE@ mount=@MOUNT@ prefix=@PREFIX@
if [[ ! -x $base && $mount ]]; then # the base's uenv may have another mount point
    IFS=, read -ra images <<<"${UENV_MOUNT_LIST:-}"
    for image in "${images[@]}"; do
        other=${image##*:}
        if [[ -x $other${base#"$mount"} ]]; then
            base=$other${base#"$mount"}
            [[ $prefix == "$mount"/* ]] && prefix=$other${prefix#"$mount"}
            export PYTHONHOME=$prefix UENVTOOL_PYTHONHOME=set # Python would look for its prefix at the old mount
            break
        fi
    done
fi
[[ -x $base ]] && exec -a "$self" "$base" "$@"
printf '%s\n' @MISSING@ >&2
exit 1
