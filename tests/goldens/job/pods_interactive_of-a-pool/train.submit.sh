#!/bin/sh
# Written by uenvtool. To write it again: uenvtool job --system rcp --image registry.example/mlo:v1 --node-type h200 --interactive --output train.sh
# 1 pods; --workers does not count the master. The command contains the two scripts.
cd "$(dirname "$0")" || exit
scripts=$(tar -cz train.sh train.activate.sh | base64 | tr -d '\n')
exec runai submit train --interactive -g 4 -i registry.example/mlo:v1 --large-shm \
  --annotation k8s.v1.cni.cncf.io/networks=kube-system/roce --extended-resource rdma/rdma=1 --node-pools h200 --preemptible -- \
  bash -c "job=\$(mktemp -d) && echo $scripts | base64 -d | tar -xz -C \$job && exec bash \$job/train.sh"
