#!/bin/bash
# Runs a step of the pipeline for ngc-pytorch:26.02-py3-alps6
# Made by uenvtool, again: uenvtool container ngc-pytorch-26.02-alps6
#   ci.sh build      build and push the image, if the registry does not have an image with this content hash
#   ci.sh test       run the tests on nodes, if this image has not passed them yet, and mark the image
#   ci.sh mark       add the tag of tested images
#   ci.sh publish    add the stable tag, if the image has passed the tests; a stable tag never moves to another image
# Set REGISTRY to the registry of the images, such as registry.example.org/group. Requires podman and skopeo.
canonical=ngc-pytorch:26.02-py3-alps6-0c709eacbb4a2658eff06e0f1f228a4c
tested=ngc-pytorch:26.02-py3-alps6-0c709eacbb4a2658eff06e0f1f228a4c-tested-3ecbca969f712b1f
stable=ngc-pytorch:26.02-py3-alps6
base='' # the base in the same registry, if uenvtool builds it

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

main() {
  : "${REGISTRY:?set it to the registry, for example REGISTRY=registry.example.org/group}"
  case ${1-} in
    build) build ;;
    test) is_tested || { run_tests && mark; } ;;
    mark) mark ;;
    publish) publish ;;
    *) stop "unknown step '${1-}'" 'use build, test, mark or publish' ;;
  esac
}

build() {
  local found
  found=$(digest "$canonical") || exit 1
  if [[ -n $found ]]; then
    echo "$canonical is already in the registry"
    return
  fi
  local options=(--file Containerfile --tag "$REGISTRY/$canonical")
  ! grep -q '^ARG JOBS' Containerfile || options+=(--build-arg "JOBS=${JOBS:-16}")
  [[ -z $base ]] || options+=(--build-arg "BASE=$REGISTRY/$base")
  podman build "${options[@]}" .
  podman push "$REGISTRY/$canonical"
}

is_tested() {
  local found passed
  found=$(digest "$canonical") || exit 1
  passed=$(digest "$tested") || exit 1
  [[ -n $found && $passed == "$found" ]] || return 1
  echo "$canonical has passed these tests"
}

# Runs the tests with the image from the registry. An EDF names it as HOST#PATH:TAG.
run_tests() {
  local edf=$PWD/ci.toml
  {
    echo "image = \"${REGISTRY/\//#}/$canonical\""
    grep -v '^image = ' ngc-pytorch.toml
  } >"$edf"
  EDF=$edf bash test.sh
}

mark() { skopeo copy "docker://$REGISTRY/$canonical" "docker://$REGISTRY/$tested"; }

publish() {
  local new published
  is_tested || stop "$canonical has not passed these tests" 'run ci.sh test first'
  new=$(digest "$canonical") || exit 1
  published=$(digest "$stable") || exit 1
  case $published in
    "$new") echo "$stable is already published" ;;
    '') skopeo copy "docker://$REGISTRY/$canonical" "docker://$REGISTRY/$stable" ;;
    *) stop "$stable is already published with other contents" 'give the recipe another tag' ;;
  esac
}

# Prints the digest of an image in the registry, or nothing if it does not exist. Exits if the registry fails.
digest() {
  local found
  if found=$(skopeo inspect --no-tags --format '{{.Digest}}' "docker://$REGISTRY/$1" 2>&1); then
    echo "$found"
  elif [[ $found != *'manifest unknown'* && $found != *'name unknown'* && $found != *'not found'* ]]; then
    stop "cannot look up $1 in the registry: $found" 'log in with skopeo login'
  fi
}

stop() {
  printf 'uenvtool: %s\nhint: %s\n' "$1" "$2" >&2
  exit 1
}

main "$@"
