# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# The views of the uenvs that are loaded, `mount:name:view,...`; the base is the first that has a Python.
ue_rest=${UENV_VIEW-}, ue_view_root='' ue_views=''
while [[ $ue_rest == *,* ]]; do
  ue_dir=${ue_rest%%,*} && ue_rest=${ue_rest#*,}
  case $ue_dir in /*:*:*) ue_dir=${ue_dir%%:*}/env/${ue_dir##*:} ;; *) continue ;; esac
  [[ ! -e $ue_dir/lib ]] || ue_views+=$ue_dir/lib:
  [[ ! -e $ue_dir/lib64 ]] || ue_views+=$ue_dir/lib64:
  [[ -n $ue_view_root && (-x $ue_view_root/bin/python || ! -x $ue_dir/bin/python) ]] || ue_view_root=$ue_dir
done
