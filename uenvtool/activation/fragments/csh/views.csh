# The views of the uenvs that are loaded, `mount:name:view,...`; the base is the first that has a Python.
# A mount with spaces is not seen.
set ue_view_root = ''
set ue_views = ( )
if ( $?UENV_VIEW ) then
  set noglob
  set ue_parts = ( $UENV_VIEW:as/)/?/:as/,/ /:as/:/ / )
  unset noglob
  while ( $#ue_parts >= 3 )
    set ue_name = "${ue_parts[1]}/env/${ue_parts[3]}"
    set ue_views = ( $ue_views:q $ue_name:q/lib $ue_name:q/lib64 )
    if ( "$ue_view_root" == '' ) set ue_view_root = $ue_name:q
    if ( ! -x "${ue_view_root}/bin/python" && -x "${ue_name}/bin/python" ) set ue_view_root = $ue_name:q
    shift ue_parts
    shift ue_parts
    shift ue_parts
  end
endif
