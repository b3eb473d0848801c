# A virtual environment.
set ue_overlay = ''
set ue_venv = @VENV@
if ( $?UENVTOOL_VENV ) then
  set ue_venv = $UENVTOOL_VENV:q
endif
if ( $ue_venv:q != '' ) then
  if ( $ue_venv:q !~ /* ) set ue_venv = $cwd:q/$ue_venv:q
  if ( -x $ue_venv:q/bin/python ) then
    foreach ue_name ( VIRTUAL_ENV PATH PYTHONHOME )
      set ue_old = ''
      eval 'set ue_is = $?'$ue_name
      if ( $ue_is ) eval 'set ue_old = $'$ue_name':q'
      @KEEP@
    end
    setenv VIRTUAL_ENV $ue_venv:q
    unsetenv PYTHONHOME
    if ( ${PATH:q}: !~ ${ue_venv:q}/bin:* ) setenv PATH $ue_venv:q/bin:$PATH:q
    # tcsh cannot read a file by itself: an overlay that is named is taken to carry its base.
    set ue_overlay = 1
  else
    set ue_failed = "there is no virtual environment at $ue_venv:q"
  endif
endif
