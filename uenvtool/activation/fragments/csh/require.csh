alias ue_require 'set ue_todo = ( $ue_todo:q require \!:1 @\!:2 @\!:3 )'
