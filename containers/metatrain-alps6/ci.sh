#!/bin/bash
# The steps of a pipeline for metatrain-alps6:26.02-py3-alps6
# Made by uenvtool, again: uenvtool container metatrain-alps6
#   ci.sh build      build and push, if the image with these contents is not in the registry
#   ci.sh test       run the tests on nodes, if this image has not passed these tests
#   ci.sh mark       give the image the tag that says that it passed
#   ci.sh publish    give it its stable tag, if it passed; a stable tag is never given to another image
# REGISTRY is where the images are, such as registry.example.org/group. Needs podman and skopeo.
canonical=metatrain-alps6:26.02-py3-alps6-213a9626fd50ac96abb9f89e60e78e67
tested=metatrain-alps6:26.02-py3-alps6-213a9626fd50ac96abb9f89e60e78e67-tested-21e335f9b76c02e0
stable=metatrain-alps6:26.02-py3-alps6
base=ngc-pytorch:26.02-py3-alps6-6cb38e609b1b10e9f2e95a46b24056c2 # an image of ours in the same registry, or nothing

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

main() {
  : "${REGISTRY:?name the registry: REGISTRY=registry.example.org/group}"
  case ${1-} in
    build) build ;;
    test) is_tested || { run_tests && mark; } ;;
    mark) mark ;;
    publish) publish ;;
    *) stop "no step ${1-}" 'build, test, mark or publish' ;;
  esac
}

build() {
  local found
  found=$(digest "$canonical") || exit 1
  if [[ -n $found ]]; then
    echo "$canonical is in the registry: nothing to build"
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

# The tests, in the image of the registry: an EDF names it as HOST#PATH:TAG.
run_tests() {
  local edf=$PWD/ci.toml
  {
    echo "image = \"${REGISTRY/\//#}/$canonical\""
    grep -v '^image = ' metatrain-alps6.toml
  } >"$edf"
  EDF=$edf bash test.sh
}

mark() { skopeo copy "docker://$REGISTRY/$canonical" "docker://$REGISTRY/$tested"; }

publish() {
  local new published
  is_tested || stop "$canonical has not passed these tests" 'ci.sh test comes first'
  new=$(digest "$canonical") || exit 1
  published=$(digest "$stable") || exit 1
  case $published in
    "$new") echo "$stable is published" ;;
    '') skopeo copy "docker://$REGISTRY/$canonical" "docker://$REGISTRY/$stable" ;;
    *) stop "$stable is another image, and stays so" 'give the recipe another tag' ;;
  esac
}

# The digest of an image in the registry; nothing if it is not there. A registry that does not answer ends the step.
digest() {
  local found
  if found=$(skopeo inspect --no-tags --format '{{.Digest}}' "docker://$REGISTRY/$1" 2>&1); then
    echo "$found"
  elif [[ $found != *'manifest unknown'* && $found != *'name unknown'* && $found != *'not found'* ]]; then
    stop "the registry does not say if it has $1: $found" 'see that you are logged in: skopeo login'
  fi
}

stop() {
  printf 'uenvtool: %s\nhint: %s\n' "$1" "$2" >&2
  exit 1
}

main "$@"
