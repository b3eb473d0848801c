#!/bin/bash
@DIRECTIVES@
command=(@COMMAND@)
# Made by uenvtool, again: @AGAIN@

set -e      # a step that fails ends the job with its exit code
ulimit -c 0 # no core dumps, one from each rank that crashes

# The container's variables are in @EDF@: what is set here, srun would hand on into it.
mkdir -p @FOLDER@
MASTER_ADDR=$(hostname)                                          # rank 0 runs on the first node, as this script does
export MASTER_ADDR MASTER_PORT=@PORT@ # the job's own: two jobs on a node do not meet
@STAGE@@END@@BEFORE@srun -ul --output=@OUTPUT@ -c "$SLURM_CPUS_PER_TASK" --cpu-bind=@BIND@@OPTIONS@ \
  --environment=@EDF@ bash -c '
@INSIDE@@LAUNCH@' @LAUNCHER@ "${command[@]}"@AFTER@
