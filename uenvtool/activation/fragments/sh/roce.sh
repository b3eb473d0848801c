# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
ue_roce_gid_index='' ue_roce_hca=@HCA@ ue_roce_note=''
ue_gid
