#!/bin/bash
# nodes: this one; processes: @RANKS@
command=(@COMMAND@)
# Made by uenvtool, again: @AGAIN@

set -e      # a training that fails ends the script with its exit code
ulimit -c 0 # no core dumps
@INSIDE@@PROGRAM@"${command[@]}"
