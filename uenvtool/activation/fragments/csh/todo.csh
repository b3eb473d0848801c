while ( $#ue_todo >= 4 )
  set ue_verb = $ue_todo[1]
  set ue_name = $ue_todo[2]
  set ue_value = $ue_todo[3]:s/@//:q
  set ue_text = $ue_todo[4]:s/@//:q
  shift ue_todo
  shift ue_todo
  shift ue_todo
  shift ue_todo
  set ue_old = ''
  eval 'set ue_is = $?'$ue_name
  if ( $ue_is ) eval 'set ue_old = $'$ue_name':q'
  set ue_do = 0
  set ue_now = "now $ue_value:q"
  switch ( $ue_verb )
  case require:
    if ( ! $ue_is || $ue_old:q != $ue_value:q ) set ue_do = 1
    breaksw
  case remove:
    set ue_do = $ue_is
    set ue_now = removed
    breaksw
  case at_most:
    if ( ! $ue_is ) set ue_do = 1
    if ( $ue_old:q =~ [0-9]* && $ue_old:q !~ *[^0-9]* ) then
      if ( $ue_old > $ue_value ) set ue_do = 1
    endif
    if ( ! $ue_is ) set ue_names = ( $ue_names $ue_name )
    breaksw
  case prepend:
    if ( ${ue_old:q}: !~ ${ue_value}:* ) set ue_do = 1
    if ( $ue_do && $ue_old:q != '' ) set ue_value = "${ue_value}:"$ue_old:q
    breaksw
  case expect:
    if ( " $ue_along " =~ *\ $ue_name\ * ) set ue_is = 0
    if ( ! $ue_is ) then
      ue_tell "$ue_name is not set: $ue_text"
    endif
    breaksw
  endsw
  if ( ! $ue_do ) continue
  if ( $ue_is && $ue_say && ( $ue_verb == require || $ue_verb == remove || $ue_verb == at_most ) ) then
    if ( $ue_old:q =~ *[^\ -~]* ) set ue_old = 'something else'
    echo "uenvtool: $ue_name was" "${ue_old}, ${ue_now}:" $ue_text:q >>! /dev/stderr
    if ( $ue_is ) eval 'set ue_old = $'$ue_name':q'
  endif
  @KEEP@
  if ( $ue_verb == remove ) then
    unsetenv $ue_name
  else
    setenv $ue_name $ue_value:q
  endif
end
