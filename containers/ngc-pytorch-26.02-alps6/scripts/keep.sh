#!/bin/sh
# Copies what the image takes of a component from /out to /runtime; links stay links.
#   keep.sh COMPONENT PATTERN...    patterns of absolute paths in the image
set -eu

component=$1
shift
mkdir -p /runtime
cd /out
IFS='' # patterns become names of files, and nothing else
for pattern in "$@"; do
  for path in .$pattern; do
    if [ ! -e "$path" ] && [ ! -L "$path" ]; then
      printf 'uenvtool: %s installs nothing at %s\n' "$component" "$pattern" >&2
      printf 'hint: correct the list "installs" in components/%s.yaml; its build installed:\n' "$component" >&2
      find . ! -type d | head -n 50 >&2
      exit 1
    fi
    cp --archive --parents -- "$path" /runtime/
  done
done
