# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
[[ -n ${ZSH_VERSION-} ]] || case $- in *f*) set +f && ue_options="set -f; $ue_options" ;; esac # files must be found
[[ -n ${ZSH_VERSION-} ]] || ! shopt -q failglob || { shopt -u failglob && ue_options="shopt -s failglob; $ue_options"; }
