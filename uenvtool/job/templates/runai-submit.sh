#!/bin/sh
# Made by uenvtool, again: @AGAIN@
# @PODS@ pods: the master is not counted as a worker. The two scripts travel with the command.
@SECRETS@cd "$(dirname "$0")" || exit
scripts=$(tar -cz @SCRIPT@ @ACTIVATION@ | base64 | tr -d '\n')
exec runai @SUBMIT@ \
  @FLAGS@ -- \
  bash -c "job=\$(mktemp -d) && echo $scripts | base64 -d | tar -xz -C \$job && exec bash \$job/@SCRIPT@"
