#!/bin/sh
# uenvtool in one file: this text, and behind it a zip archive of wheels. The first run on an architecture unpacks those
# that it needs below ~/.cache/uenvtool-pyz (UENVTOOL_PYZ names another folder); later runs start from there.
for folder in "${UENVTOOL_PYZ:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/uenvtool-pyz}" /dev/shm/uenvtool-pyz-$USER; do
    case $folder in /dev/shm/*) [ -O "$folder" ] && [ ! -L "$folder" ] || continue ;; esac # where all may make names
    folder=$folder/@ID@-$(uname -m)
    [ -O "$folder" ] && [ -x "$folder/bin/python" ] && exec "$folder/bin/python" "$folder/bin/uenvtool" "$@"
done
