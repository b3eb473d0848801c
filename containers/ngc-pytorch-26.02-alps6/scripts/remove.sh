#!/bin/sh
# Takes files and Debian packages out of an image.
#   remove.sh package:PATTERN|PATH...    * and ? stand for characters of a name
set -eu

IFS='' # patterns become names of files, and nothing else
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
