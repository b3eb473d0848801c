# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
ue_overlay='' ue_failed='' ue_venv=${UENVTOOL_VENV-@VENV@} && case $ue_venv in '' | /*) ;; *) ue_venv=$PWD/$ue_venv ;; esac
if [[ -n $ue_venv && ! -x $ue_venv/bin/python ]]; then
  ue_failed=1 && printf 'uenvtool: there is no virtual environment at %s\n' "$ue_venv" >&2 || :
elif [[ -n $ue_venv ]]; then
  ue_keep VIRTUAL_ENV && ue_keep PYTHONHOME && unset -v PYTHONHOME && export VIRTUAL_ENV="$ue_venv"
  case ${PATH-}: in "$ue_venv/bin:"*) ;; *) printf -v ue_old %q ":$ue_venv/bin:" # the way back takes this out alone
    export PATH="$ue_venv/bin${PATH:+:$PATH}" && ue_back+=$'\n'"  ue_old=$ue_old PATH=:\${PATH-}:"
    ue_back+=" && PATH=\${PATH/\"\$ue_old\"/:} && PATH=\${PATH#:} && PATH=\${PATH%:} && unset -v ue_old" ;; esac
  [[ ! -r $ue_venv/pyvenv.cfg ]] || while IFS= read -r ue_line || [[ -n $ue_line ]]; do case $ue_line in # its base?
    include-system-site-packages*=*[Tt]rue* | uenvtool-base*=*) ue_overlay=1 ;; esac; done <"$ue_venv/pyvenv.cfg"
fi
