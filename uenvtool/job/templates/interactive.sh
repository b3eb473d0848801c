#!/bin/bash
# `bash @FILE@` waits for a node and opens a shell there, with all that a job has; `exit` gives the node back.
options=(
@OPTIONS@
)
command=(@COMMAND@)
# Made by uenvtool, again: @AGAIN@
@MADE_FOR@
on_node() {
set -e
ulimit -c 0 # no core dumps

@CONTAINER@@SETTINGS@@VARIABLES@export NODE_RANK=0
exec @STEP@bash -c '
@INSIDE@  exec "$@"' shell "$@"
}
exec srun "${options[@]}" --cpu-bind=none@SRUN@ --pty bash -c "$(declare -f on_node); on_node \"\$@\"" shell "${command[@]}"
