export LOGS="logs/$SLURM_JOB_NAME-@NUMBER@" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
{ # the facts of this run, for `uenvtool diff`; long words are hidden, because they may be secrets
  printf '%s\n' @FACTS@ \
    "nodes=$SLURM_JOB_NODELIST" "git commit=$(timeout 5 git describe --always --dirty --exclude '*')"
  sed -n 's/^NVRM version: .*  \([0-9][0-9.]*\)  .*/driver=\1/p' /proc/driver/nvidia/version
@FILES@  env | sort | sed -nE '/^UENV_MOUNT_LIST=/p
    /^(@NAMES@)_/ { s#//[^/@ ]+@#//#g; s/([^A-Za-z0-9_])[A-Za-z0-9_]{20,}/\1(hidden)/g; p; }'
} >"$LOGS/run.txt" 2>/dev/null || :
@IN_LOGS@MASTER_ADDR=$(@ADDRESS@) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=@PORT@ # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
