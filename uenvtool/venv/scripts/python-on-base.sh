#!/bin/bash -p
# The Python of this overlay for an editor or a program that knows nothing of its base: loads that first if it is not
# here. Written by `uenvtool venv`.
here=$(dirname -- "$(realpath -- "$0")")
@LOADED@ || exec @LOAD@ "$here/python" "$@"
exec "$here/python" "$@"
