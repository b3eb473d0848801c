# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
ue_remove() { ue_require "$1" '' "$2"; }
