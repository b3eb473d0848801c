# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME NUMBER REASON: set what is unset, and replace a larger number.
ue_at_most() {
  eval "ue_line=\${$1-x}"
  case $ue_line in '' | *[!0-9]*) ;; *) ((10#$ue_line <= $2)) || ue_require "$@" ;; esac
  ue_default "$1" "$2"
}
