# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
ue_tell() { [[ -z $ue_say || -n $ue_again ]] || printf 'uenvtool: %s\n' "$1" >&2 || :; } # on rank 0, once
