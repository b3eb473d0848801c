# What scripts for fish are put together from: the sections that a system needs, in the order of script.py.
# A line "#: NAME" begins a section; @MARKS@ are filled in.

#: tell
# Say something on stderr: on rank 0, the first time that a shell sources this.
function ue_tell --no-scope-shadowing
    test "$ue_say$ue_again" = 1; and echo "uenvtool: $argv[1]" >&2
    true
end

#: keep
# NAME: remember how a variable is now, for the way back; what is remembered first counts.
function ue_keep --no-scope-shadowing
    contains -- $argv[1] $ue_kept; and return 0
    set -a ue_kept $argv[1]
    if not set -qg $argv[1]
        set -a ue_back "set -eg $argv[1]"
        return 0
    end
    set ue_old (string escape -- $$argv[1])
    if set -qgx $argv[1]
        set -a ue_back "set -gx $argv[1] $ue_old"
    else
        set -a ue_back "set -gu $argv[1] $ue_old"
    end
end

#: require
# NAME VALUE REASON: set a variable, also over another value; without a VALUE, remove it.
function ue_require --no-scope-shadowing
    if set -q $argv[1]
        test -n "$argv[2]" -a "$$argv[1]" = "$argv[2]"; and return 0
        set ue_old (string escape -- "$$argv[1]")
        set ue_line removed
        test -n "$argv[2]"; and set ue_line "now $argv[2]"
        test "$ue_say" = 1; and echo "uenvtool: $argv[1] was $ue_old, $ue_line: $argv[3]" >&2
    else if test -z "$argv[2]"
        return 0
    end
    ue_keep $argv[1]
    set -e $argv[1]
    test -n "$argv[2]"; and set -gx $argv[1] $argv[2]
    true
end

#: remove
function ue_remove --no-scope-shadowing
    ue_require $argv[1] '' $argv[2]
end

#: default
# NAME VALUE: set what is unset, if there is a value.
function ue_default --no-scope-shadowing
    set -q $argv[1]; or test -z "$argv[2]"; and return 0
    ue_keep $argv[1]
    set -gx $argv[1] $argv[2]
    set -a ue_names $argv[1]
end

#: default_set
# NAME VALUE: set what is unset, if there is a value. In the first pass over a set: note what is set otherwise.
function ue_default --no-scope-shadowing
    if set -q $argv[1]
        test "$ue_pass" = look; and test "$$argv[1]" != "$argv[2]"; and set ue_other $argv[1]
    else if test "$ue_pass" != look -a -z "$ue_other" -a -n "$argv[2]"
        ue_keep $argv[1]
        set -gx $argv[1] $argv[2]
        set -a ue_names $argv[1]
    end
    true
end
# SET [VARIABLE WORD HINT]: the end of a set; say why it was not set, or that the job lacks what it needs.
function ue_together --no-scope-shadowing
    if test -n "$ue_other"
        ue_tell "$ue_other is set otherwise, so nothing of the set $argv[1] is added"
    else if test -n "$SLURM_JOB_ID" -a -n "$argv[2]"; and not string match -q -- "*$argv[3]*" "$$argv[2]"
        ue_tell "the set $argv[1] needs $argv[3] in $argv[2]: $argv[4]"
    end
    set ue_pass
    set ue_other
end

#: at_most
# NAME NUMBER REASON: set what is unset, and replace a larger number.
function ue_at_most --no-scope-shadowing
    string match -q -r -- '^[0-9]+$' "$$argv[1]"; and test "$$argv[1]" -gt $argv[2]; and ue_require $argv
    ue_default $argv[1] $argv[2]
end

#: prepend
# NAME FOLDERS: put folders in front of a list of folders, once.
function ue_prepend --no-scope-shadowing
    set ue_line (string join ':' -- $$argv[1])
    string match -q -- "$argv[2]:*" "$ue_line:"; and return 0
    ue_keep $argv[1]
    set -gx $argv[1] "$argv[2]"(string replace -r -- '^(.)' ':$1' "$ue_line")
end

#: here
# NAME MESSAGE: say something of this node or pod, unless the user has set the variable.
function ue_here --no-scope-shadowing
    test -n "$argv[2]"; and not set -q $argv[1]; and echo "uenvtool: $argv[2]" >&2
    true
end

#: expect
# NAME REASON: say if a variable is missing that somebody else sets. What came along from the host does not count.
function ue_expect --no-scope-shadowing
    set -q $argv[1]; and not contains -- $argv[1] (string split ' ' -- "$ue_along"); and return 0
    ue_tell "$argv[1] is not set: $argv[2]"
end

#: libraries
# FACT LIBRARY VERSION FOLDERS...: a version in ue_FACT as a number, 2026 of 2.26.2: the one given, else that of the
# library in the first of the folders that has it; 1 if its name has none, 0 if there is no library.
function ue_library --no-scope-shadowing
    set -l ue_found (string match -r -- '^[0-9]+\.[0-9]+' "$argv[3]")
    set -l ue_any 0
    for ue_line in $argv[4..-1]
        test -z "$ue_found" -a "$ue_any" = 0 -a -n "$ue_line"; or continue
        for ue_file in $ue_line/$argv[2] $ue_line/$argv[2].*
            test -e "$ue_file"; or continue
            set ue_any 1
            set -l ue_parts (string match -r -- '\.so\.([0-9]+\.[0-9]+)' "$ue_file"); and set ue_found $ue_parts[2]
        end
    end
    set ue_$argv[1] $ue_any
    test -n "$ue_found"; and set ue_$argv[1] (string replace . ' * 1000 + ' $ue_found | math)
    true
end

#: roce_functions
# The index of the GID that is RoCE v2 and IPv4-mapped in ue_roce_gid_index, the start of its device in ue_roce_hca.
function ue_gid --no-scope-shadowing
    set -l ue_at ''
    set -l ue_differs ''
    set -l ue_wanted (string replace -r -- '^=' '' "$NCCL_IB_HCA" | string replace -r -- '[,:].*' '')
    string match -q -- '^*' "$ue_wanted"; and set ue_wanted ''
    for ue_file in $UENVTOOL_ROOT/sys/class/infiniband/*/ports/*/gids/*
        set -l ue_gid ''
        set -l ue_type ''
        test -r "$ue_file"; and read ue_gid <"$ue_file" 2>/dev/null
        string match -q -- '0000:0000:0000:0000:0000:ffff:*' "$ue_gid"; or continue
        set -l ue_parts (string match -r -- '^(.*/([^/]+)/ports/[^/]+)/gids/([0-9]+)$' "$ue_file")
        set -q ue_parts[4]; or continue
        test -r "$ue_parts[2]/gid_attrs/types/$ue_parts[4]"
        and read ue_type <"$ue_parts[2]/gid_attrs/types/$ue_parts[4]" 2>/dev/null
        string match -q -- '*RoCE v2*' "$ue_type"; or continue
        test -z "$ue_wanted"
        or string match -q -r -- '^'(string escape --style=regex -- "$ue_wanted") "$ue_parts[3]"
        or continue
        if test -z "$ue_roce_gid_index"
            set ue_roce_gid_index $ue_parts[4]
            set ue_at $ue_parts[2]
            set ue_roce_hca (string replace -r -- '[0-9]{1,2}$' '' $ue_parts[3])
        else if test "$ue_at" = "$ue_parts[2]"
            test "$ue_parts[4]" -lt "$ue_roce_gid_index"; and set ue_roce_gid_index $ue_parts[4]
        else if test "$ue_roce_gid_index" != "$ue_parts[4]"
            set ue_differs "$ue_parts[3] ($ue_parts[4])"
        end
    end
    # A fault of one node or pod is said there: by its first process.
    set -l ue_first 0
    for ue_line in LOCAL_RANK SLURM_LOCALID
        test -n "$$ue_line"; and set ue_first $$ue_line
    end
    contains -- "$ue_first$UENVTOOL_QUIET$ue_again" 0 00; or return 0
    if test -z "$ue_roce_gid_index"
        set ue_roce_note 'no GID here is RoCE v2 and IPv4-mapped: NCCL_IB_GID_INDEX is not set;'
        set ue_roce_note "$ue_roce_note NCCL before 2.21 may go over TCP"
    else if test -n "$ue_differs"
        set ue_at (string replace -r -- '.*/infiniband/' '' $ue_at)
        set ue_roce_note "the GID indexes differ: $ue_roce_gid_index of $ue_at is taken, not $ue_differs"
    end
end

#: begin
set -l ue_again
set -l ue_say
set -l ue_kept
set -l ue_back
set -l ue_names
set -l ue_old
set -l ue_line
set -l ue_rank 0
if functions -q uenvtool_deactivate
    uenvtool_deactivate carry # sourced again: it goes on from there, and still knows the way back
    set ue_again 1
end
for ue_line in RANK PMI_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID
    test -n "$$ue_line"; and set ue_rank $$ue_line
end
contains -- "$ue_rank$UENVTOOL_QUIET" 0 00; and set ue_say 1

#: which_runtime
# Which runtime this is; a container's own marks count more than a variable that came along.

#: runtime
set -l ue_runtime @RUNTIME@
set -l ue_container
set -l ue_image

#: in_container
if @SHOWN@
    set ue_runtime @NAME@
    set ue_container 1
end

#: in_shell
test -z "$ue_runtime"; and @SHOWN@; and set ue_runtime @NAME@

#: of_image
test -n "$@VARIABLE@"; and set ue_image @IMAGE@

#: named_runtime
if contains -- "$UENVTOOL_RUNTIME" @CHOICES@
    set ue_runtime $UENVTOOL_RUNTIME
else if test -n "$UENVTOOL_RUNTIME"
    ue_tell "UENVTOOL_RUNTIME=$UENVTOOL_RUNTIME is none of @NAMES@"
end
test -n "$ue_runtime"; or ue_tell @NOTHING@

#: along
# What the script set on the host goes into a container with the rest of the environment.
set ue_line (string split -m 1 ' ' -- "$UENVTOOL_SET")
if test -n "$ue_container" -a -n "$ue_line[1]" -a "$ue_line[1]" != "$ue_runtime"
    set ue_along "$ue_line[2]"
    ue_tell "set on the host for $ue_line[1], and came along: $ue_along"
end

#: views
# The views of the uenvs that are loaded, `mount:name:view,...`; the base is the first that has a Python.
set -l ue_view_root ''
set -l ue_views
set -l ue_parts
for ue_line in (string split ',' -- "$UENV_VIEW")
    set ue_parts (string match -r -- '^(/[^:]*):[^:]*:([^:]*)$' "$ue_line"); or continue
    set ue_line $ue_parts[2]/env/$ue_parts[3]
    set -a ue_views $ue_line/lib $ue_line/lib64
    if test -z "$ue_view_root"; or test ! -x "$ue_view_root/bin/python" -a -x "$ue_line/bin/python"
        set ue_view_root $ue_line
    end
end

#: venv
set -l ue_overlay
set -l ue_failed
set -l ue_venv @VENV@
set -q UENVTOOL_VENV; and set ue_venv "$UENVTOOL_VENV"
test -z "$ue_venv"; or string match -q -- '/*' "$ue_venv"; or set ue_venv "$PWD/$ue_venv"
if test -n "$ue_venv" -a ! -x "$ue_venv/bin/python"
    set ue_failed "there is no virtual environment at $ue_venv"
else if test -n "$ue_venv"
    ue_keep VIRTUAL_ENV
    ue_keep PYTHONHOME
    set -eg PYTHONHOME
    set -gx VIRTUAL_ENV "$ue_venv"
    if test "$PATH[1]" != "$ue_venv/bin" # the way back takes it out alone: the rest may have changed by then
        set -gx PATH "$ue_venv/bin" $PATH
        set ue_old (string escape -- "$ue_venv/bin")
        set -a ue_back "contains -- $ue_old \$PATH; and set -e PATH[(contains -i -- $ue_old \$PATH)]"
    end
    test -r "$ue_venv/pyvenv.cfg"; and while read ue_line # does it carry its base?
        string match -q -i -r -- '^(include-system-site-packages.*=.*true|uenvtool-base.*=)' "$ue_line"
        and set ue_overlay 1
    end <"$ue_venv/pyvenv.cfg"
end

#: of_views
test "$ue_runtime" = @NAME@; and set ue_folders $ue_views

#: of_library
set -l ue_@FACT@ 0
ue_library @FACT@ @LIBRARY@ @VERSION@ $ue_folders

#: nodes
set -l ue_nodes $SLURM_JOB_NUM_NODES # of the job; empty where there is none
test -n "$ue_nodes"; or set ue_nodes $SLURM_NNODES

#: cores
# The cores that a task may use, shared between its processes: one a GPU with torchrun.
set -l ue_cores
set -l ue_bound 0
set -l ue_tasks "$SLURM_STEP_TASKS_PER_NODE"
test -n "$ue_tasks"; or set ue_tasks "$SLURM_TASKS_PER_NODE"
set ue_tasks (string match -r -- '^[1-9][0-9]*' "$ue_tasks"; or echo 1)
set -l ue_gpus (string match -r -- '^[1-9][0-9]*$' "$SLURM_GPUS_ON_NODE"; or echo 1)
set -l ue_all (string match -r -- '^[1-9][0-9]*$' "$SLURM_CPUS_ON_NODE"; or echo 0)
if test -n "$SLURM_CPUS_PER_TASK"
    set ue_cores (string match -r -- '^[1-9][0-9]*$' "$SLURM_CPUS_PER_TASK")
else if test "$ue_all" -gt 0
    # The cores that the kernel lets this process use, such as 0-7,144: those of the task if Slurm has bound it.
    if test -n "$SLURM_STEP_ID" -a -r "$UENVTOOL_ROOT/proc/self/status"
        while read -l ue_line
            set -l ue_parts (string match -r -- '^Cpus_allowed_list:\s*([0-9,-]+)' "$ue_line"); or continue
            for ue_line in (string split ',' -- $ue_parts[2])
                set ue_parts (string split '-' -- $ue_line)
                set ue_bound (math "$ue_bound + $ue_parts[-1] - $ue_parts[1] + 1")
            end
        end <"$UENVTOOL_ROOT/proc/self/status"
    end
    if test "$ue_bound" -gt 0 -a (math "$ue_bound * $ue_tasks") -le "$ue_all"
        set ue_cores $ue_bound
    else # a guess: at most the 8 of the documentation
        set ue_cores (math "min(8, floor($ue_all / $ue_tasks))")
        set -q OMP_NUM_THREADS; or ue_tell 'OMP_NUM_THREADS is a guess: give --cpus-per-task (-c)'
    end
end
test -n "$ue_cores" -a "$ue_gpus" -gt "$ue_tasks"
and set ue_cores (math "max(1, floor($ue_cores * $ue_tasks / $ue_gpus))")

#: gpus
set -l ue_runai_gpus (string match -r -- '^[0-9]+$' "$RUNAI_NUM_OF_GPUS")

#: temporary
set -l ue_temporary (string join -- - /tmp/$USER $SLURM_JOB_ID)

#: roce
set -l ue_roce_gid_index ''
set -l ue_roce_hca @HCA@
set -l ue_roce_note ''
ue_gid

#: set_names
if test -n "$ue_runtime" -a -z "$ue_container"
    ue_keep UENVTOOL_SET
    test -n "$ue_again"; or set -gx UENVTOOL_SET "$ue_runtime"
    set -gx UENVTOOL_SET (string join ' ' -- $UENVTOOL_SET $ue_names)
end

#: ranks
# For the tasks of srun: a program of sh that gives one its RANK and starts the command that follows.
ue_keep UENVTOOL_RANK
set -gx UENVTOOL_RANK @PROGRAM@
test -z "$ue_failed"; or set -gx UENVTOOL_RANK @FAILED@

#: end
test -z "$ue_failed"; or echo "uenvtool: $ue_failed" >&2
set -l ue_body (string join ';' -- $ue_back)
set -l ue_carried (string escape -- $ue_back)
eval "function uenvtool_deactivate --no-scope-shadowing
    if test \"\$argv[1]\" = carry
        set ue_kept $ue_kept
        set ue_back $ue_carried
        return 0
    end
    $ue_body
    functions -e uenvtool_deactivate
end"
functions -e @FUNCTIONS@
test -z "$ue_failed"
