# ue_default NAME VALUE: set what is unset, if there is a value, and note it for the way back.
alias ue_unset 'set ue_value = \!:2; @ ue_do = ( ! $?\!:1 && $ue_value:q \!= "" ); ue_is_new \!:1'
alias ue_is_new '@ ue_new = ( $ue_do && "$ue_undo" !~ *\ \!:1[\ \;]* )'
alias ue_put 'if ( $ue_new ) set ue_undo = "$ue_undo unsetenv \!:1;"; if ( $ue_do ) set ue_names = ( $ue_names \!:1 )'
alias ue_single 'ue_unset \!:1 \!:2; ue_put \!:1; if ( $ue_do ) setenv \!:1 \!:2'
alias ue_default ue_single
