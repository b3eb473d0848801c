alias ue_expect 'set ue_todo = ( $ue_todo:q expect \!:1 @ @\!:2 )'
