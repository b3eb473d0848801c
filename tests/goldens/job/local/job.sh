#!/bin/bash
# nodes: this one; processes: 2
command=(train.py --lr 0.1)
# Made by uenvtool, again: uenvtool job --system local -- python train.py --lr 0.1

set -e      # a training that fails ends the script with its exit code
ulimit -c 0 # no core dumps
torchrun --standalone --nproc-per-node=2 "${command[@]}"
