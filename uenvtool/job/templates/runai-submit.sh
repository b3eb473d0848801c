#!/bin/sh
# Made by uenvtool, again: @AGAIN@
# @PODS@ pods: the master is not counted as a worker.
exec runai submit-dist pytorch --name @NAME@ --workers=@WORKERS@ -g @RANKS@ -i @IMAGE@ --large-shm \
  @FLAGS@ -- bash @SCRIPT@
