# A virtual environment.
set ue_overlay = ''
set ue_venv = @VENV@
if ( $?UENVTOOL_VENV ) then
  set ue_venv = $UENVTOOL_VENV:q
endif
if ( $ue_venv:q != '' ) then
  if ( $ue_venv:q !~ /* ) set ue_venv = $cwd:q/$ue_venv:q
  if ( -x $ue_venv:q/bin/python ) then
    foreach ue_name ( VIRTUAL_ENV PYTHONHOME )
      set ue_old = ''
      eval 'set ue_is = $?'$ue_name
      if ( $ue_is ) eval 'set ue_old = $'$ue_name':q'
      @KEEP@
    end
    setenv VIRTUAL_ENV $ue_venv:q
    unsetenv PYTHONHOME
    if ( ${PATH:q}: !~ ${ue_venv:q}/bin:* ) then
      # The way back is PATH as it was, or the PATH of then without this entry; an alias has no loop but `repeat`.
      @ ue_was = $#uenvtool_deactivate + 1
      @ ue_now = $ue_was + 1
      @ ue_own = $ue_was + 2
      @ ue_how = $ue_was + 3
      set ue_old = '@ ue_is = ( \! $ue_out && $ue_left[1]:q == $uenvtool_deactivate['$ue_own']:q ); '
      set ue_old = $ue_old:q'if ( \! $ue_is ) set ue_path = ( $ue_path:q $ue_left[1]:q ); '
      set ue_old = $ue_old:q'if ( $ue_is ) set ue_out = 1; shift ue_left'
      set uenvtool_deactivate = ( $uenvtool_deactivate:q @$PATH:q $ue_venv:q/bin:$PATH:q $ue_venv:q/bin $ue_old:q )
      setenv PATH $uenvtool_deactivate[$ue_now]:q
      set ue_old = ' set ue_left = ( $path:q ); set ue_path = ( ); set ue_out = 0; '
      set ue_old = $ue_old:q'alias ue_step $uenvtool_deactivate['$ue_how']:q; '
      set ue_old = $ue_old:q'repeat $#path eval ue_step; unalias ue_step; '
      set ue_old = $ue_old:q'@ ue_is = ( $PATH:q == $uenvtool_deactivate['$ue_now']:q ); '
      set ue_old = $ue_old:q'if ( \! $ue_is ) set path = ( $ue_path:q ); '
      set ue_old = $ue_old:q'if ( $ue_is ) setenv PATH $uenvtool_deactivate['$ue_was']:s/@//:q; '
      set ue_undo = $ue_old:q'unset ue_left ue_path ue_out ue_is;'$ue_undo:q
    endif
    # tcsh cannot read a file by itself: an overlay that is named is taken to carry its base.
    set ue_overlay = 1
  else
    set ue_failed = "there is no virtual environment at $ue_venv:q"
  endif
endif
