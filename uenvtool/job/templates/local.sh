#!/bin/bash
# nodes: only this one; processes: @RANKS@
command=(@COMMAND@)
# Written by uenvtool. To write it again: @AGAIN@

set -e      # the script ends with the exit code of a failed training
ulimit -c 0 # no core dumps
@INSIDE@@PROGRAM@"${command[@]}"
