#!/bin/bash
# Builds metatrain-alps6:26.02-py3-alps6-76e9d718c1a60404b9ff158f28b4a27b
# with podman, and converts it to a squashfs file for the Container Engine.
# Made by uenvtool, again: uenvtool container metatrain-alps6
#   bash build.sh [OPTION...]   options of podman build, such as --network=host if builds have no network
#   JOBS=16       parallel processes of one build
#   IMAGES=DIR    the directory for the squashfs file
#   BASE=IMAGE    the image to build on, if it has another name on this machine
image=metatrain-alps6:26.02-py3-alps6-76e9d718c1a60404b9ff158f28b4a27b
file=metatrain-alps6+26.02-py3-alps6.sqsh

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
folder=${IMAGES:-${SCRATCH:-$PWD}/ce-images}

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

if ! command -v enroot >/dev/null; then
  echo "built $image; enroot is not installed, so no squashfs file was written" >&2
  exit 0
fi
mkdir -p "$folder"
# On Lustre, use one storage target for small files and all for large ones: thousands of processes read the image.
! command -v lfs >/dev/null || lfs setstripe -E 4M -c 1 -E 64M -c 4 -E -1 -c -1 -S 4M "$folder" ||
  echo "$folder is not striped, since it is not on Lustre" >&2
rm -f "$folder/$file.part"
enroot import -x mount -o "$folder/$file.part" "podman://$image"
mv "$folder/$file.part" "$folder/$file"
echo "$folder/$file"
