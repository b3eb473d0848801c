# shellcheck shell=bash disable=SC1091
# Sets the network and library variables of this image once, and keeps variables that are already set.
# Sourced by login shells (/etc/profile.d) and by the entry point of the image. For bash only.
[ -n "${BASH_VERSION-}" ] || return 0
[ -z "${ALPS_EXTENDED_IMAGES_ENV_SOURCED-}" ] || return 0
export ALPS_EXTENDED_IMAGES_ENV_SOURCED=1
. /opt/uenvtool/activate.sh || true # the container must start even if this fails
