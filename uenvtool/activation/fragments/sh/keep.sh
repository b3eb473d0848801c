# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME: remember how a variable is now, for the way back; what is remembered first counts.
ue_keep() {
  case " $ue_kept $ue_undo " in *" $1 "*) return 0 ;; esac
  [[ -v $1 ]] || { ue_undo+=" $1" && return 0; }
  ue_kept+=" $1" ue_old=x # a variable that is not exported stays so, if the shell can tell: bash 4.4, zsh
  [[ -z ${ZSH_VERSION-} ]] || eval "[[ \${(t)$1} == *export* ]] || ue_old=''"
  [[ ${BASH_VERSINFO[0]-0}${BASH_VERSINFO[1]-0} -lt 44 ]] || eval "ue_old=\${$1@a}"
  case $ue_old in *x*) ue_line="export $1" ;; *) ue_line="unset -v $1; $1" ;; esac
  eval "printf -v ue_old %q \"\${$1}\"" && ue_back+=$'\n'"  $ue_line=$ue_old"
}
