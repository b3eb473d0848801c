#!/bin/sh
# Fetches sources into the current directory and compares them with their checksum.
#   fetch.sh archive WHAT URL SHA256|unchecked    unpack an archive
#   fetch.sh git     WHAT URL COMMIT|REF          check out a revision
#   fetch.sh patch   WHAT URL SHA256              apply a patch
# A file of the same name in /sources is used instead of the download.
set -eu

main() {
  kind=$1 what=$2 url=$3 expected=$4
  case $kind in
    git) clone ;;
    archive) download && compare && tar --extract --strip-components=1 --no-same-owner --file="$file" && rm "$file" ;;
    patch) download && compare && patch -p1 <"$file" && rm "$file" ;;
  esac
}

download() {
  file=$(mktemp)
  if [ -f "/sources/${url##*/}" ]; then
    cp "/sources/${url##*/}" "$file"
  else
    curl --fail --silent --show-error --location --retry 3 --output "$file" -- "$url" ||
      stop "cannot be downloaded from $url" "check the network, or put ${url##*/} into the directory mounted as /sources"
  fi
}

compare() {
  [ "$expected" != unchecked ] || return 0
  found=$(sha256sum "$file") && found=${found%% *}
  [ "$found" = "$expected" ] || wrong "$found"
}

clone() {
  git init --quiet .
  git fetch --quiet --depth 1 -- "$url" "$expected" ||
    stop "has no $expected at $url" 'check the network, and that the repository contains this commit'
  git -c advice.detachedHead=false checkout --quiet FETCH_HEAD
  found=$(git rev-parse HEAD)
  case $expected in refs/*) ;; *) [ "$found" = "$expected" ] || wrong "$found" ;; esac
}

wrong() {
  stop "has another checksum than expected: $url
  expected $expected
  got      $1" 'build again; if the checksum differs again, compare the file with the one that its developers publish'
}

stop() {
  printf 'uenvtool: %s %s\nhint: %s\n' "$what" "$1" "$2" >&2
  exit 1
}

main "$@"
