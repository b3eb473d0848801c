# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME VALUE: set what is unset, if there is a value.
ue_default() { [[ -z $2 ]] || [[ -v $1 ]] || { ue_undo+=" $1" && export "$1=$2"; }; }
