# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
ue_runai_gpus=${RUNAI_NUM_OF_GPUS-}
case $ue_runai_gpus in *[!0-9]*) ue_runai_gpus='' ;; esac
