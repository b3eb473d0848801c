#!/bin/sh
# uenvtool in a single file, which is this script followed by a zip archive of wheels. The first run on an architecture
# unpacks the wheels that it needs into ~/.cache/uenvtool-pyz (or UENVTOOL_PYZ). Later runs start from there.
for folder in "${UENVTOOL_PYZ:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/uenvtool-pyz}" /dev/shm/uenvtool-pyz-$USER; do
    case $folder in /dev/shm/*) [ -O "$folder" ] && [ ! -L "$folder" ] || continue ;; esac # where every user can create files
    folder=$folder/@ID@-$(uname -m)
    [ -O "$folder" ] && [ -x "$folder/bin/python" ] && exec "$folder/bin/python" "$folder/bin/uenvtool" "$@"
done
