#!/bin/sh
# Written by uenvtool. To write it again: uenvtool job --system rcp --image registry.example/mlo:v1 --env 'A=$(x) b' --env HF_TOKEN --workdir /s --pvc scratch:/mnt/s --project p1 --uid 12:34 --output train.sh -- python train.py --lr 0.1
# 2 pods; --workers does not count the master. The command contains the two scripts.
# No file contains HF_TOKEN. It is read from the secret env-hf-token, which you create once:
#   printf %s "$HF_TOKEN" | kubectl create secret generic env-hf-token -n runai-p1 --from-file=HF_TOKEN=/dev/stdin
cd "$(dirname "$0")" || exit
scripts=$(tar -cz train.sh train.activate.sh | base64 | tr -d '\n')
exec runai submit-dist pytorch --name train --workers=1 -g 4 -i registry.example/mlo:v1 --large-shm \
  --annotation k8s.v1.cni.cncf.io/networks=kube-system/roce --extended-resource rdma/rdma=1 -p p1 --run-as-uid 12 --run-as-gid 34 --existing-pvc claimname=scratch,path=/mnt/s -e 'A=$(x) b' -e HF_TOKEN=SECRET:env-hf-token,HF_TOKEN --working-dir /s -- \
  bash -c "job=\$(mktemp -d) && echo $scripts | base64 -d | tar -xz -C \$job && exec bash \$job/train.sh"
