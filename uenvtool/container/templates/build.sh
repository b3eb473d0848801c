#!/bin/bash
# Builds @CANONICAL@
# with podman, and makes it a @KIND@ for @RUNTIME@.
# Made by uenvtool, again: @AGAIN@
#   bash build.sh [OPTION...]   options of podman build, such as --network=host where a build reaches no network
#   JOBS=16       processes of one build
#   IMAGES=DIR    where the @KIND@ goes
#   BASE=IMAGE    the image to build on, if it has another name here
image=@CANONICAL_WORD@
file=@FILE_WORD@

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
folder=${IMAGES:-@FOLDER@}

options=(--file Containerfile --tag "$image")
! grep -q '^ARG JOBS' Containerfile || options+=(--build-arg "JOBS=${JOBS:-16}")
[[ -z ${BASE-} ]] || options+=(--build-arg "BASE=$BASE")
[[ ! -d sources ]] || options+=(--volume "$PWD/sources:/sources:ro") # for a machine without the internet
if ! podman build "${options[@]}" "$@" .; then
  conf=${XDG_CONFIG_HOME:-~/.config}/containers/storage.conf
  echo "hint: where podman keeps images is in $conf; a node without a disk of its own has /dev/shm for it" >&2
  echo "hint: no network in the build, as on some clusters of Alps since 2026-07-30: --network=host" >&2
  exit 1
fi

@TO_FILE@