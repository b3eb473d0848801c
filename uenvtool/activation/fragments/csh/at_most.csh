alias ue_at_most 'set ue_todo = ( $ue_todo:q at_most \!:1 @\!:2 @\!:3 )'
