# shellcheck shell=bash disable=SC1091
# Sets what the network and the libraries of this image need, once: what is set already stays.
# Sourced by login shells (/etc/profile.d) and by the entry point of the image. Bash only.
[ -n "${BASH_VERSION-}" ] || return 0
[ -z "${ALPS_EXTENDED_IMAGES_ENV_SOURCED-}" ] || return 0
export ALPS_EXTENDED_IMAGES_ENV_SOURCED=1
. /opt/uenvtool/activate.sh || true # a hook must not keep a container from starting
