# For csh and tcsh: `source bin/activate.csh`; `deactivate` undoes it. Written by `uenvtool venv`.
# A csh script cannot know its own place. tcsh tells it at the prompt; in a script set it first:
#   setenv VIRTUAL_ENV /path/of/the/overlay; source $VIRTUAL_ENV:q/bin/activate.csh
# The overlay does not need it: bin/python and the commands in bin/ work without.
set _uenvtool_called = ($_:q)
alias deactivate 'test $?_UENVTOOL_OLD_PATH != 0 && setenv PATH "$_UENVTOOL_OLD_PATH:q" && unset _UENVTOOL_OLD_PATH; test $?_UENVTOOL_OLD_PYTHONPATH != 0 && setenv PYTHONPATH "$_UENVTOOL_OLD_PYTHONPATH:q" && unset _UENVTOOL_OLD_PYTHONPATH; test $?_UENVTOOL_SET_PYTHONPATH != 0 && unsetenv PYTHONPATH && unset _UENVTOOL_SET_PYTHONPATH; test $?_UENVTOOL_OLD_PROMPT != 0 && set prompt="$_UENVTOOL_OLD_PROMPT:q" && unset _UENVTOOL_OLD_PROMPT; unsetenv VIRTUAL_ENV; unsetenv VIRTUAL_ENV_PROMPT; rehash; unalias deactivate'

if ($#_uenvtool_called >= 2) then
    set _uenvtool_here = $_uenvtool_called[2]:q
    if ("$_uenvtool_here:q" !~ /*) set _uenvtool_here = $cwd:q/$_uenvtool_here:q
    set _uenvtool_here = $_uenvtool_here:q:h
    setenv VIRTUAL_ENV $_uenvtool_here:q:h
    unset _uenvtool_here
endif
unset _uenvtool_called
set _uenvtool_found = 0
if ($?VIRTUAL_ENV) then
    if (-f $VIRTUAL_ENV:q/pyvenv.cfg) set _uenvtool_found = 1
endif
if (! $_uenvtool_found) then
    echo "uenvtool: activate.csh cannot tell where it lies: setenv VIRTUAL_ENV PATH, and source PATH/bin/activate.csh"
    unset _uenvtool_found
    unalias deactivate
    exit 1
endif
unset _uenvtool_found
setenv VIRTUAL_ENV_PROMPT $VIRTUAL_ENV:q:t
set _UENVTOOL_OLD_PATH = $PATH:q
setenv PATH $VIRTUAL_ENV:q/bin:$PATH:q
if ($?prompt && ! $?VIRTUAL_ENV_DISABLE_PROMPT) then
    set _UENVTOOL_OLD_PROMPT = $prompt:q
    set prompt = "($VIRTUAL_ENV_PROMPT:q) $prompt:q"
endif

# --precedence pythonpath: this overlay, its base, then what was there, also for a Python that reads no .pth files.
if (@BY_PYTHONPATH@ != "") then
    if ($?PYTHONPATH) then
        set _UENVTOOL_OLD_PYTHONPATH = $PYTHONPATH:q
        setenv PYTHONPATH $VIRTUAL_ENV:q/@SITE@@FOLDERS@:$PYTHONPATH:q
    else
        set _UENVTOOL_SET_PYTHONPATH = yes
        setenv PYTHONPATH $VIRTUAL_ENV:q/@SITE@@FOLDERS@
    endif
endif
rehash
