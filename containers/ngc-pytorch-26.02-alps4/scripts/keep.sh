#!/bin/sh
# Copies the files of a component that the image needs from /out to /runtime. Symlinks stay symlinks.
#   keep.sh COMPONENT PATTERN...    patterns of absolute paths in the image
set -eu

component=$1
shift
mkdir -p /runtime
cd /out
IFS='' # expand patterns, but do not split paths with spaces
for pattern in "$@"; do
  for path in .$pattern; do
    if [ ! -e "$path" ] && [ ! -L "$path" ]; then
      printf 'uenvtool: %s installs nothing at %s\n' "$component" "$pattern" >&2
      printf 'hint: fix the list "installs" in components/%s.yaml; the build installed:\n' "$component" >&2
      find . ! -type d | head -n 50 >&2
      exit 1
    fi
    cp --archive --parents -- "$path" /runtime/
  done
done
