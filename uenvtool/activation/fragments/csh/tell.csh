# ue_tell TEXT: say something on stderr, on rank 0, the first time that a shell sources this.
alias ue_tell 'set ue_text = \!:1; if ( $ue_say && ! $ue_again ) eval '\''echo "uenvtool:" $ue_text:q >>! /dev/stderr'\'
