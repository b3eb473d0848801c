#!/bin/sh
# Brings sources into the current folder and compares them with the checksum on record.
#   fetch.sh archive WHAT URL SHA256|unchecked    the archive, unpacked
#   fetch.sh git     WHAT URL COMMIT|REF
#   fetch.sh patch   WHAT URL SHA256              the change, applied to the current folder
# A file of the same name in /sources is taken in place of the download.
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
      stop "cannot be downloaded from $url" "without a network, put ${url##*/} into the folder that is mounted as /sources"
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
    stop "has no $expected at $url" 'see that the machine reaches it, and that the commit is on record there'
  git -c advice.detachedHead=false checkout --quiet FETCH_HEAD
  found=$(git rev-parse HEAD)
  case $expected in refs/*) ;; *) [ "$found" = "$expected" ] || wrong "$found" ;; esac
}

wrong() {
  stop "is not what is on record: $url
  expected $expected
  found    $1" 'the download broke, or the file was changed where it lies: compare it with what its makers publish'
}

stop() {
  printf 'uenvtool: %s %s\nhint: %s\n' "$what" "$1" "$2" >&2
  exit 1
}

main "$@"
