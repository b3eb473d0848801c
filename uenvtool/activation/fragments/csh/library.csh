foreach ue_name ( $ue_folders:q )
  if ( $#ue_seen ) break
  set ue_name = $ue_name:q/@LIBRARY@
  set ue_seen = ( $ue_name:q.[0-9]*.[0-9]* $ue_name:q $ue_name:q.[0-9] )
  while ( $#ue_seen )
    if ( -e $ue_seen[1]:q || $ue_seen[1]:q !~ */* ) break
    shift ue_seen
  end
end
if ( $#ue_seen ) then
  set ue_@FACT@ = 1
  set noglob
  set ue_parts = ( $ue_seen[1]:t:as/)/?/:as/./ / )
  unset noglob
  if ( $#ue_parts >= 4 ) then
    if ( "$ue_parts[3]$ue_parts[4]" !~ *[^0-9]* ) @ ue_@FACT@ = $ue_parts[3] * 1000 + $ue_parts[4]
  endif
endif
