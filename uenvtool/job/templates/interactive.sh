#!/bin/bash
# `bash @FILE@` waits for a node and opens a shell there with the settings of a job. `exit` releases the node.
options=(
@OPTIONS@
)
command=(@COMMAND@)
# Written by uenvtool. To write it again: @AGAIN@
@MADE_FOR@
on_node() {
set -e
ulimit -c 0 # no core dumps

@CONTAINER@@SETTINGS@@VARIABLES@export NODE_RANK=0
exec @STEP@bash -c '
@INSIDE@  exec "$@"' shell "$@"
}
exec srun "${options[@]}" --cpu-bind=none@SRUN@ --pty bash -c "$(declare -f on_node); on_node \"\$@\"" shell "${command[@]}"
