#@header
#
#   source @name@          sets what is unset, says what it overrides, starts no process
#   uenvtool_rank_env        inside srun: RANK, LOCAL_RANK, WORLD_SIZE, NNODES, MASTER_ADDR, MASTER_PORT
#   uenvtool_deactivate      brings the environment back as it was
#
# UENVTOOL_QUIET=1 silences it, UENVTOOL_VENV=PATH names a virtual environment, UENVTOOL_RUNTIME=NAME the runtime.
# For fish from 3.2 on.

# Tell something on stderr, once a shell, on rank 0, unless the user wants quiet.
function uenvtool_tell --no-scope-shadowing
    test "$ue_say$ue_again" = 1; and echo "uenvtool: $argv[1]" >&2
    true
end

# Remember how a variable is now, for uenvtool_deactivate; what was first remembered counts.
function uenvtool_keep --no-scope-shadowing
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

# Remember a variable that is about to be changed, and say so where it was set: NAME NEW REASON.
function uenvtool_override --no-scope-shadowing
    uenvtool_keep $argv[1]
    if test "$ue_say" = 1; and set -q $argv[1]
        set ue_old (string escape -- "$$argv[1]")
        echo "uenvtool: $argv[1] was $ue_old, now $argv[2]: $argv[3]" >&2
    end
    true
end

function uenvtool_activate
    set -l ue_again
    set -l ue_say
    set -l ue_kept
    set -l ue_back
    set -l ue_old
    set -l ue_file
    set -l ue_line
    set -l ue_runtime
    set -l ue_overlay
    if functions -q uenvtool_deactivate
        uenvtool_deactivate carry # sourced again: it goes on from there, and still knows the way back
        set ue_again 1
    else
        #@remembered
    end
    set -l ue_rank 0
    for ue_line in RANK PMI_RANK OMPI_COMM_WORLD_RANK SLURM_PROCID
        test -n "$$ue_line"; and set ue_rank $$ue_line
    end
    contains -- "$ue_rank$UENVTOOL_QUIET" 0 00; and set ue_say 1

    set ue_runtime "$UENVTOOL_RUNTIME"
    if not contains -- "$ue_runtime" @runtimes@
        test -n "$ue_runtime"; and uenvtool_tell "UENVTOOL_RUNTIME is none of @runtimes@"
        #@if runtime
        if test -n "$UENV_VIEW$UENV_MOUNT_LIST"
            set ue_runtime uenv
        else if test -n "$APPTAINER_CONTAINER$SINGULARITY_CONTAINER" -o -d /.singularity.d
            set ue_runtime apptainer
        else if test -n "$PET_NNODES$RUNAI_NUM_OF_GPUS"
            set ue_runtime runai
        else if test -n "$container$NVIDIA_PRODUCT_NAME" -o -e /.dockerenv -o -e /run/.containerenv
            set ue_runtime ce
        else
            set ue_runtime @runtime@ # nothing is seen: the preferred one
        end
        #@else
        set ue_runtime @runtime@
        #@end
    end

    # The views of the uenvs that are loaded, `mount:name:view,...`; the base is the first that has a Python.
    set -l ue_view_root ''
    set -l ue_views
    for ue_line in (string split ',' -- "$UENV_VIEW")
        set -l ue_parts (string match -r -- '^(/[^:]*):[^:]*:([^:]*)$' "$ue_line"); or continue
        set ue_line $ue_parts[2]/env/$ue_parts[3]
        set -a ue_views $ue_line
        if test -z "$ue_view_root"; or test ! -x "$ue_view_root/bin/python" -a -x "$ue_line/bin/python"
            set ue_view_root $ue_line
        end
    end

    set -l ue_venv @venv@
    set -q UENVTOOL_VENV; and set ue_venv "$UENVTOOL_VENV"
    if test -n "$ue_venv"
        string match -q -- '/*' "$ue_venv"; or set ue_venv "$PWD/$ue_venv"
        if test -x "$ue_venv/bin/python"
            uenvtool_keep VIRTUAL_ENV
            uenvtool_keep PATH
            set -gx VIRTUAL_ENV "$ue_venv"
            test "$PATH[1]" = "$ue_venv/bin"; or set -gx PATH "$ue_venv/bin" $PATH
            uenvtool_keep PYTHONHOME
            set -eg PYTHONHOME
            # An overlay carries its base: its configuration says so.
            if test -r "$ue_venv/pyvenv.cfg"
                while read -l ue_line
                    string match -q -i -r -- '^(include-system-site-packages.*=.*true|uenvtool-base.*=)' "$ue_line"
                    and set ue_overlay 1
                end <"$ue_venv/pyvenv.cfg"
            end
        else
            uenvtool_tell "there is no virtual environment at $ue_venv"
        end
    end
    #@if nccl

    # NCCL's version, from the name of its library (libnccl.so.2.26.2); 0 where none is seen.
    set -l ue_nccl 0
    set -l ue_seen
    if test "$ue_runtime" = uenv
        for ue_line in $ue_views/lib $ue_views/lib64
            set -a ue_seen $ue_line/libnccl.so.2.*
        end
    else
        set ue_seen "libnccl.so.$NCCL_VERSION"
        for ue_line in (string split ':' -- "$LD_LIBRARY_PATH") /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64
            set -a ue_seen $ue_line/libnccl.so.2.*
        end
    end
    for ue_file in $ue_seen
        set -l ue_parts (string match -r -- 'libnccl\.so\.([0-9]+)\.([0-9]+)' "$ue_file")
        if set -q ue_parts[3]
            set ue_nccl (math "$ue_parts[2] * 1000 + $ue_parts[3]")
            break
        end
    end
    #@end
    #@if nvshmem

    # Whether NVSHMEM is there.
    set -l ue_nvshmem
    for ue_line in "$ue_view_root"/lib "$ue_view_root"/lib64 /usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu
        test -e $ue_line/libnvshmem_host.so -o -e $ue_line/libnvshmem_host.so.3; and set ue_nvshmem 1
    end
    #@end
    #@if roce

    # The GID that is both RoCE v2 and IPv4-mapped. NCCL takes one index for all devices.
    set -l ue_roce_gid_index ''
    set -l ue_gid_at ''
    set -l ue_roce_hca ''
    set -l ue_differs ''
    set -l ue_root /sys
    set -q UENVTOOL_SYSFS; and set ue_root "$UENVTOOL_SYSFS"
    set -l ue_wanted (string replace -r -- '^=' '' "$NCCL_IB_HCA" | string replace -r -- '[,:].*' '')
    string match -q -- '^*' "$ue_wanted"; and set ue_wanted ''
    for ue_file in $ue_root/class/infiniband/*/ports/*/gids/*
        set -l ue_line ''
        set -l ue_type ''
        test -r "$ue_file"; and read ue_line <"$ue_file" 2>/dev/null
        string match -q -- '0000:0000:0000:0000:0000:ffff:*' "$ue_line"; or continue
        set -l ue_parts (string match -r -- '^(.*/([^/]+)/ports/[^/]+)/gids/([0-9]+)$' "$ue_file")
        set -q ue_parts[4]; or continue
        test -r "$ue_parts[2]/gid_attrs/types/$ue_parts[4]"
        and read ue_type <"$ue_parts[2]/gid_attrs/types/$ue_parts[4]" 2>/dev/null
        string match -q -- '*RoCE v2*' "$ue_type"; or continue
        test -z "$ue_wanted"; or string match -q -r -- '^'(string escape --style=regex -- "$ue_wanted") "$ue_parts[3]"; or continue
        if test -z "$ue_roce_gid_index"
            set ue_roce_gid_index $ue_parts[4]
            set ue_gid_at $ue_parts[2]
            set ue_roce_hca (string replace -r -- '[0-9]{1,2}$' '' $ue_parts[3])
        else if test "$ue_gid_at" = "$ue_parts[2]"
            test "$ue_parts[4]" -lt "$ue_roce_gid_index"; and set ue_roce_gid_index $ue_parts[4]
        else if test "$ue_roce_gid_index" != "$ue_parts[4]"
            set ue_differs "$ue_parts[3] ($ue_parts[4])"
        end
    end
    if test -z "$ue_roce_gid_index"
        uenvtool_tell 'no GID under /sys/class/infiniband is both RoCE v2 and IPv4-mapped: NCCL_IB_GID_INDEX is not set, and NCCL may fall back to TCP'
    else if test -n "$ue_differs"
        uenvtool_tell "the devices' GID indexes differ; $ue_roce_gid_index is taken, of $ue_gid_at; another: $ue_differs"
    end
    #@end
    #@if cores_per_process

    # The cores of a task, shared between the processes that it starts: one a GPU with torchrun.
    set -l ue_tasks (string match -r -- '^[1-9][0-9]*' "$SLURM_STEP_TASKS_PER_NODE"; or string match -r -- '^[1-9][0-9]*' "$SLURM_TASKS_PER_NODE"; or echo 1)
    set -l ue_gpus (string match -r -- '^[1-9][0-9]*$' "$SLURM_GPUS_ON_NODE"; or echo 1)
    set -l ue_cores_per_process (string match -r -- '^[0-9]+$' "$SLURM_CPUS_PER_TASK")
    if test -z "$SLURM_CPUS_PER_TASK"; and string match -q -r -- '^[0-9]+$' "$SLURM_CPUS_ON_NODE"
        set ue_cores_per_process (math "floor($SLURM_CPUS_ON_NODE / $ue_tasks)")
    end
    if test -n "$ue_cores_per_process"
        test "$ue_gpus" -gt "$ue_tasks"; and set ue_cores_per_process (math "floor($ue_cores_per_process / floor($ue_gpus / $ue_tasks))")
        test "$ue_cores_per_process" -lt 1; and set ue_cores_per_process 1
    end
    #@end
    #@if runai_gpus

    set -l ue_runai_gpus (string match -r -- '^[0-9]+$' "$RUNAI_NUM_OF_GPUS")
    #@end

    #@settings

    set -l ue_body (string join ';' -- $ue_back)
    set -l ue_carried (string escape -- $ue_back)
    eval "function uenvtool_deactivate --no-scope-shadowing
        if test \"\$argv[1]\" = carry
            set ue_kept $ue_kept
            set ue_back $ue_carried
            return 0
        end
        $ue_body;
        functions -e uenvtool_rank_env uenvtool_deactivate
    end"
end

# Inside srun, or in a pod of Run:ai: what torch.distributed reads with env://.
function uenvtool_rank_env
    if test -n "$SLURM_PROCID"
        set -gx RANK $SLURM_PROCID
        set -gx LOCAL_RANK 0
        test -n "$SLURM_LOCALID"; and set -gx LOCAL_RANK $SLURM_LOCALID
        set -gx WORLD_SIZE 1
        test -n "$SLURM_NTASKS"; and set -gx WORLD_SIZE $SLURM_NTASKS
        test -n "$SLURM_STEP_NUM_TASKS"; and set -gx WORLD_SIZE $SLURM_STEP_NUM_TASKS
        set -gx NNODES 1
        test -n "$SLURM_NNODES"; and set -gx NNODES $SLURM_NNODES
        test -n "$SLURM_STEP_NUM_NODES"; and set -gx NNODES $SLURM_STEP_NUM_NODES
        if test -z "$MASTER_ADDR"
            # The first name of a list such as nid[001234-001236,001300],login1.
            set -l ue_list localhost
            test -n "$SLURM_JOB_NODELIST"; and set ue_list $SLURM_JOB_NODELIST
            test -n "$SLURM_STEP_NODELIST"; and set ue_list $SLURM_STEP_NODELIST
            while string match -q -r -- '^[^,[]*\[' $ue_list
                set ue_list (string replace -r -- '^([^,[]*)\[([^],-]*)[^]]*\]' '$1$2' $ue_list)
            end
            set -gx MASTER_ADDR (string replace -r -- ',.*' '' $ue_list)
        end
        if test -z "$MASTER_PORT"
            # One a job, below the ports that the kernel gives out and away from 6000 (X11).
            set -gx MASTER_PORT 29500
            string match -q -r -- '^[0-9]+$' "$SLURM_JOB_ID"; and set -gx MASTER_PORT (math "10000 + $SLURM_JOB_ID % 20000")
        end
    else if test -n "$PET_NNODES"
        # Run:ai sets RANK, LOCAL_RANK, MASTER_ADDR and MASTER_PORT itself; torchrun counts the GPUs' ranks.
        set -gx NNODES $PET_NNODES
        test -n "$RANK"; or set -gx RANK 0
        test -n "$LOCAL_RANK"; or set -gx LOCAL_RANK 0
        test -n "$MASTER_PORT"; or set -gx MASTER_PORT 29500
        set -l ue_gpus 1
        test -n "$RUNAI_NUM_OF_GPUS"; and set ue_gpus $RUNAI_NUM_OF_GPUS
        if test -z "$WORLD_SIZE"; and string match -q -r -- '^[0-9]+$' "$PET_NNODES$ue_gpus"
            set -gx WORLD_SIZE (math "$PET_NNODES * $ue_gpus")
        end
        true
    else
        echo 'uenvtool: not inside srun and not in a pod of Run:ai: there is no rank here' >&2
        return 1
    end
end

uenvtool_activate
functions -e uenvtool_activate uenvtool_tell uenvtool_keep uenvtool_override
