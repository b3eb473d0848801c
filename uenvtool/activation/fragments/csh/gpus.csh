set ue_runai_gpus = ''
if ( $?RUNAI_NUM_OF_GPUS ) then
  if ( $RUNAI_NUM_OF_GPUS:q !~ *[^0-9]* ) set ue_runai_gpus = $RUNAI_NUM_OF_GPUS:q
endif
