#!/bin/bash
# The steps of a pipeline for the uenv @PURPOSE@
# Made by uenvtool, again: @AGAIN@
#   ci.sh resolve    see that the committed environment is what its inputs give; where not, make it anew to be committed
#   ci.sh build      build the image and put it into IMAGES, if it is not there
#   ci.sh test       run the tests, if this image has not passed them, and mark it
#   ci.sh publish    put it into DEPLOY, if it passed; with RELEASE in a registry, under that tag too
# IMAGES and DEPLOY are places that keep images: a folder, or oci://REGISTRY/PATH, for which skopeo is logged in.
# TESTS is a script that gets the image; where it leaves ReFrame's report in REFRAME_REPORT, that report decides.
# BUILD_OPTIONS are further options of image build, such as --cache URL.
environments=(@ENVIRONMENTS@)
recipes=(@RECIPES@) # of each
where=(@WHERE@)
name=@NAME_WORD@ # of the image in a registry

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"/@TOP_WORD@

main() {
  case ${1-} in
    resolve) resolve ;;
    build) image >/dev/null ;;
    test) test_image ;;
    publish) publish ;;
    *) stop "no step ${1-}" 'resolve, build, test or publish' ;;
  esac
}

resolve() {
  local index words differing=
  for index in "${!environments[@]}"; do
    words=("${recipes[index]}" "${where[@]}" -o "${environments[index]}")
    ! uenvtool build "${words[@]}" --check || continue
    uenvtool build "${words[@]}" --concretize || true
    differing+=" ${environments[index]}"
  done
  [[ -z $differing ]] ||
    stop "not what the inputs give:$differing" 'commit what this job has made of it: its artifacts hold it'
}

# Prints the file of the image, which is built only if no place has it.
image() {
  : "${IMAGES:?name the place of images under test: IMAGES=oci://registry.example.org/build}"
  local options=(--tag hash --images "$IMAGES" --push-image "$IMAGES" -o images/)
  # shellcheck disable=SC2086  # several options
  uenvtool image build "${environments[@]}" "${options[@]}" ${BUILD_OPTIONS-}
}

has_passed() { (cd images && sha256sum --check --status "${1##*/}.tested" 2>/dev/null); }

test_image() {
  local file mark=(--push-image "$IMAGES")
  file=$(image)
  if has_passed "$file"; then
    echo "${file##*/} has passed the tests"
    return
  fi
  : "${TESTS:?name the script of your tests: TESTS=ci/test.sh}"
  uenvtool image verify "$file"
  bash "$TESTS" "$file"
  [[ -z ${REFRAME_REPORT-} ]] || mark+=(--reframe "$REFRAME_REPORT")
  uenvtool image mark-tested "$file" "${mark[@]}"
}

publish() {
  local file
  : "${DEPLOY:?name the place of published images: DEPLOY=oci://registry.example.org/deploy}"
  file=$(image)
  has_passed "$file" || stop "${file##*/} has not passed the tests" 'ci.sh test comes first'
  uenvtool image mark-tested "$file" --push-image "$DEPLOY"
  [[ -z ${RELEASE-} || $DEPLOY != oci://* ]] || release "$file"
}

# Gives the image a tag of its own in the registry, which is never given to another image.
release() {
  local new published inputs=${1##*-} REGISTRY=${DEPLOY#oci://}
  new=$(digest "$name:${inputs%.squashfs}") || exit 1
  published=$(digest "$name:$RELEASE") || exit 1
  case $published in
    "$new") echo "$name:$RELEASE is published" ;;
    '') skopeo copy --preserve-digests "docker://$REGISTRY/$name:${inputs%.squashfs}" "docker://$REGISTRY/$name:$RELEASE" ;;
    *) stop "$name:$RELEASE is another image, and stays so" 'name another RELEASE' ;;
  esac
}

@END@