# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME VALUE: set what is unset, if there is a value. In the first pass over a set: note what is set otherwise.
ue_default() {
  if [[ -v $1 ]]; then
    [[ $ue_pass != look ]] || eval "[[ \${$1} == \"\$2\" ]]" || ue_other=$1
  elif [[ $ue_pass != look && -z $ue_other && -n $2 ]]; then
    ue_undo+=" $1" ue_names+=" $1" && export "$1=$2"
  fi
}
# SET [VARIABLE WORD HINT]: the end of a set; say why it was not set, or that the job lacks what it needs.
ue_together() {
  if [[ -n $ue_other ]]; then
    ue_tell "$ue_other is set otherwise, so nothing of the set $1 is added"
  elif [[ -n ${SLURM_JOB_ID-} && -n ${2-} ]]; then
    eval "[[ \${$2-} == *\"\$3\"* ]]" || ue_tell "the set $1 needs $3 in $2: $4"
  fi
  ue_pass='' ue_other=''
}
