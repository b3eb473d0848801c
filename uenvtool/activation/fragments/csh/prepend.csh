alias ue_prepend 'set ue_todo = ( $ue_todo:q prepend \!:1 @\!:2 @ )'
