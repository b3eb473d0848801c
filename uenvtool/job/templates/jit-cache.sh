# What Triton, torch.compile and CUDA compile lies in each node's memory (on disks that nodes share, writers collide:
# triton issue 11512), and between jobs in one file for each node.
mkdir -p @FOLDER@
kept=$(cd @FOLDER@ && pwd)
each_node=(srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1 --cpu-bind=none --overlap)
"${each_node[@]}" bash -ec '
  jit=/dev/shm/jit-$SLURM_JOB_ID-$SLURMD_NODENAME
  rm -rf "$jit"
  mkdir -m 700 "$jit"
  cd "$jit"
  for file in "$1/$SLURM_NODEID.tar" "$1/0.tar"; do [ ! -f "$file" ] || break; done
  [ ! -f "$file" ] || tar -xf "$file" || { echo "$file is damaged: not used" >&2; find . -mindepth 1 -delete; }
  find . -name "__grp__*" -exec sed -i "s,\"/dev/shm/jit-[^/]*,\"$jit,g" {} + # Triton keeps whole paths
  touch "$jit.begun"
' begin "$kept"
keep() { # what is new, with what was there
  "${each_node[@]}" bash -c '
    jit=/dev/shm/jit-$SLURM_JOB_ID-$SLURMD_NODENAME file=$1/$SLURM_NODEID.tar
    if [ -w "$1" ] && [ -n "$(find "$jit" -type f -newer "$jit.begun" -print -quit)" ]; then
      { tar -cf "$file-$SLURM_JOB_ID" -C "$jit" . && mv "$file-$SLURM_JOB_ID" "$file"; } || rm -f "$file-$SLURM_JOB_ID"
    fi
    rm -rf "$jit" "$jit.begun"
  ' keep "$kept" || echo "not kept in $kept: what was compiled" >&2
}
