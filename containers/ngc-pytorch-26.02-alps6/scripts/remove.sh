#!/bin/sh
# Removes files and Debian packages from an image.
#   remove.sh package:PATTERN|PATH...    * and ? match characters of a name
set -eu

IFS='' # expand patterns, but do not split paths with spaces
for removed in "$@"; do
  case $removed in
    package:*)
      command -v dpkg-query >/dev/null || continue
      dpkg-query --show --showformat '${binary:Package}\n' "${removed#package:}" 2>/dev/null |
        DEBIAN_FRONTEND=noninteractive xargs --no-run-if-empty apt-get purge --yes
      ;;
    *)
      for path in $removed; do
        if [ -e "$path" ] || [ -L "$path" ]; then
          echo "removing $path"
          rm -rf -- "$path"
        fi
      done
      ;;
  esac
done
[ "$(id -u)" != 0 ] || ldconfig
