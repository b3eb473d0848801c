# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME REASON: say if somebody else should have set a variable, and has not. What came along does not count.
ue_expect() {
  case " $ue_along " in *" $1 "*) ;; *) eval "[[ -z \${$1+x} ]]" || return 0 ;; esac
  ue_tell "$1 is not set: $2"
}
