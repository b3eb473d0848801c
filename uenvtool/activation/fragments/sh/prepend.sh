# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME FOLDERS: put folders in front of a list of folders, once.
ue_prepend() {
  eval "ue_line=\${$1-}"
  case $ue_line: in "$2:"*) ;; *) set -- "$1" "$2${ue_line:+:$ue_line}" && ue_keep "$1" && export "$1=$2" ;; esac
}
