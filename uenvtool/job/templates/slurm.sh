#!/bin/bash
@DIRECTIVES@
command=(@COMMAND@)
# Written by uenvtool. To write it again: @AGAIN@
@MADE_FOR@
set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

@CONTAINER@@SETTINGS@@VARIABLES@@STAGE@@MONITOR@@VET@@BEFORE@@BINDING@srun -l@NODES@@CORES@ --cpu-bind=@BIND@@OPTIONS@ @STEP@bash -c '
@INSIDE@@LAUNCH@' @NAME@ "${command[@]}"@AFTER@
