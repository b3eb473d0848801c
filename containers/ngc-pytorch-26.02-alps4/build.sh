#!/bin/bash
# Builds ngc-pytorch:26.02-py3-alps4-ebcf096cf5822df2fb23210cc23fcc2a
# with podman, and makes it a squashfs file for the Container Engine.
# Made by uenvtool, again: uenvtool container ngc-pytorch-26.02-alps4
#   bash build.sh [OPTION...]   options of podman build, such as --network=host where a build reaches no network
#   JOBS=16       processes of one build
#   IMAGES=DIR    where the squashfs file goes
#   BASE=IMAGE    the image to build on, if it has another name here
image=ngc-pytorch:26.02-py3-alps4-ebcf096cf5822df2fb23210cc23fcc2a
file=ngc-pytorch+26.02-py3-alps4.sqsh

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
folder=${IMAGES:-${SCRATCH:-$PWD}/ce-images}

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

if ! command -v enroot >/dev/null; then
  echo "built $image; enroot is not here, so there is no squashfs file of it" >&2
  exit 0
fi
mkdir -p "$folder"
# Large files over all storage targets, small ones on one: thousands of processes read the image at once.
! command -v lfs >/dev/null || lfs setstripe -E 4M -c 1 -E 64M -c 4 -E -1 -c -1 -S 4M "$folder" ||
  echo "$folder is not on Lustre, so it is not striped" >&2
rm -f "$folder/$file.part"
enroot import -x mount -o "$folder/$file.part" "podman://$image"
mv "$folder/$file.part" "$folder/$file"
echo "$folder/$file"
