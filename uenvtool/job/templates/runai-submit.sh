#!/bin/sh
# Written by uenvtool. To write it again: @AGAIN@
# @PODS@ pods; --workers does not count the master. The command contains the two scripts.
@SECRETS@cd "$(dirname "$0")" || exit
scripts=$(tar -cz @SCRIPT@ @ACTIVATION@ | base64 | tr -d '\n')
exec runai @SUBMIT@ \
  @FLAGS@ -- \
  bash -c "job=\$(mktemp -d) && echo $scripts | base64 -d | tar -xz -C \$job && exec bash \$job/@SCRIPT@"
