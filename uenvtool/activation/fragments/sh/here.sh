# shellcheck shell=bash disable=SC2015,SC2016,SC2034,SC2154 # its variables are those of the whole script
# NAME MESSAGE: say something of this node or pod, unless the user has set the variable.
ue_here() { eval "[[ -n \${$1+x} || -z \$2 ]]" || printf 'uenvtool: %s\n' "$2" >&2 || :; }
