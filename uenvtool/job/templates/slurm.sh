#!/bin/bash
@DIRECTIVES@
command=(@COMMAND@)
# Made by uenvtool, again: @AGAIN@
@MADE_FOR@
set -e      # a step that fails ends the job with its exit code
ulimit -c 0 # no core dumps, one from each rank that crashes

@CONTAINER@@SETTINGS@@VARIABLES@@STAGE@@MONITOR@@VET@@BEFORE@@BINDING@srun -l@NODES@@CORES@ --cpu-bind=@BIND@@OPTIONS@ @STEP@bash -c '
@INSIDE@@LAUNCH@' @NAME@ "${command[@]}"@AFTER@
