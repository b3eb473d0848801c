# In the first pass over a set: note a variable that is set otherwise. In the second: set all, if there is none.
set ue_other = ''
alias ue_see 'set ue_name = \!:1; set ue_old = ""; if ( $?\!:1 ) eval "set ue_old = "\$"$ue_name"":q"'
alias ue_look 'ue_see \!:1; if ( $?\!:1 && $ue_old:q \!= \!:2 ) set ue_other = \!:1'
alias ue_pass_look 'alias ue_default ue_look'
alias ue_pass_set 'alias ue_default ue_single; if ( "$ue_other" \!= "" ) alias ue_default :'
# ue_together SET [VARIABLE WORD HINT]: the end of a set; say why it was not set, or that the job lacks what it needs.
alias ue_together 'alias ue_default ue_single; ue_kept_out \!:1; ue_lacks \!*; set ue_other = ""'
alias ue_kept_out 'if ( "$ue_other" \!= "" ) eval ue_why \!:1'
alias ue_why 'ue_tell "$ue_other is set otherwise, so nothing of the set \!:1 is added"'
alias ue_lacks 'set ue_need = ( \!* ); ue_check_need'
alias ue_check_need 'if ( "$ue_other" == "" && $#ue_need > 1 && $?SLURM_JOB_ID ) eval ue_see_need'
alias ue_see_need 'eval ue_see $ue_need[2]; if ( $ue_old:q \!~ *$ue_need[3]* ) eval ue_tell_need'
alias ue_tell_need 'ue_tell "the set $ue_need[1] needs $ue_need[3] in ${ue_need[2]}: $ue_need[4]"'
