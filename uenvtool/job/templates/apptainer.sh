#!/bin/bash
@DIRECTIVES@
command=(@COMMAND@)
image=@IMAGE@
# Made by uenvtool, again: @AGAIN@

set -e      # a step that fails ends the job with its exit code
ulimit -c 0 # no core dumps, one from each rank that crashes
@MODULES@binds=(
@BINDS@
)
for path in "${binds[@]}" "$image"; do
  [ -e "${path%%:*}" ] || { echo "missing on $(hostname): ${path%%:*}" >&2; exit 1; }
done

@SETTINGS@mkdir -p @FOLDER@
MASTER_ADDR=$(hostname --ip-address | awk '{print $1}')          # rank 0 runs on the first node, as this script does
export MASTER_ADDR MASTER_PORT=@PORT@ # the job's own: two jobs on a node do not meet
@STAGE@@END@@BEFORE@srun -ul --output=@OUTPUT@ -c "$SLURM_CPUS_PER_TASK" --cpu-bind=@BIND@@OPTIONS@ \
  apptainer exec --nv --bind "$(IFS=, && echo "${binds[*]}")"@ENV@ "$image" bash -c '
@INSIDE@@LAUNCH@' @LAUNCHER@ "${command[@]}"@AFTER@
