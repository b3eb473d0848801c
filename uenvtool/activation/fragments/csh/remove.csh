alias ue_remove 'set ue_todo = ( $ue_todo:q remove \!:1 @ @\!:2 )'
