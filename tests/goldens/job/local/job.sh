#!/bin/bash
# nodes: only this one; processes: 2
command=(train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system local -- python train.py --lr 0.1

set -e      # the script ends with the exit code of a failed training
ulimit -c 0 # no core dumps
torchrun --standalone --nproc-per-node=2 "${command[@]}"
