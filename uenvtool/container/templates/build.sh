#!/bin/bash
# Builds @CANONICAL@
# with podman, and converts it to a @KIND@ for @RUNTIME@.
# Made by uenvtool, again: @AGAIN@
#   bash build.sh [OPTION...]   options of podman build, such as --network=host if builds have no network
#   JOBS=16       parallel processes of one build
#   IMAGES=DIR    the directory for the @KIND@
#   BASE=IMAGE    the image to build on, if it has another name on this machine
image=@CANONICAL_WORD@
file=@FILE_WORD@

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
folder=${IMAGES:-@FOLDER@}

options=(--file Containerfile --tag "$image")
! grep -q '^ARG JOBS' Containerfile || options+=(--build-arg "JOBS=${JOBS:-16}")
[[ -z ${BASE-} ]] || options+=(--build-arg "BASE=$BASE")
[[ ! -d sources ]] || options+=(--volume "$PWD/sources:/sources:ro") # downloads, for a machine without internet access
if ! podman build "${options[@]}" "$@" .; then
  conf=${XDG_CONFIG_HOME:-~/.config}/containers/storage.conf
  echo "hint: if podman cannot store images, set its storage in $conf, for example to /dev/shm on a diskless node" >&2
  echo "hint: if the build has no network, as on some Alps clusters since 2026-07-30, use --network=host" >&2
  exit 1
fi

@TO_FILE@