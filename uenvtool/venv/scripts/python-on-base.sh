#!/bin/bash -p
# The Python of this overlay for editors and other programs that do not load the base: it loads the base first if
# necessary. Written by `uenvtool venv`.
here=$(dirname -- "$(realpath -- "$0")")
@LOADED@ || exec @LOAD@ "$here/python" "$@"
exec "$here/python" "$@"
