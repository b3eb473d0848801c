# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME VALUE REASON: set a variable, also over another value; without a VALUE, remove it.
ue_require() {
  eval "ue_line=\${$1+x}\${$1-}"
  [[ $ue_line != "${2:+x$2}" ]] || return 0
  [[ -z $ue_say || -z $ue_line ]] ||
    printf 'uenvtool: %s was %q, %s: %s\n' "$1" "${ue_line#x}" "${2:+now }${2:-removed}" "$3" >&2 || :
  ue_keep "$1" && unset -v "$1"
  [[ -z $2 ]] || export "$1=$2"
}
