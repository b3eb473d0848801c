# ue_here NAME MESSAGE: say something of this node or pod, unless the user has set the variable.
alias ue_here 'set ue_text = \!:2; if ( ! $?\!:1 && $ue_text:q \!= "" ) eval ue_say_text'
alias ue_say_text 'echo "uenvtool:" $ue_text:q >>! /dev/stderr'
