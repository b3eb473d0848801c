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
