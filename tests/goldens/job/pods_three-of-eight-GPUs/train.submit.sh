#!/bin/sh
# Written by uenvtool. To write it again: uenvtool job --system rcp --image registry.example/mlo:v1 --nodes 3 --gpus 8 --output train.sh -- python train.py --lr 0.1
# 3 pods; --workers does not count the master. The command contains the two scripts.
cd "$(dirname "$0")" || exit
scripts=$(tar -cz train.sh train.activate.sh | base64 | tr -d '\n')
exec runai submit-dist pytorch --name train --workers=2 -g 8 -i registry.example/mlo:v1 --large-shm \
  --annotation k8s.v1.cni.cncf.io/networks=kube-system/roce --extended-resource rdma/rdma=1 -- \
  bash -c "job=\$(mktemp -d) && echo $scripts | base64 -d | tar -xz -C \$job && exec bash \$job/train.sh"
