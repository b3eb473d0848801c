#!/bin/bash
# Runs a command with the variables of this image.
# shellcheck disable=SC1091
. /opt/uenvtool/hook.sh
exec "$@"
