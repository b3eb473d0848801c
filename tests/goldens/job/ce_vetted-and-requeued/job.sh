#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=g123
#SBATCH --nodes=3                # 1 more than the training needs, see --vet
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=1      # torchrun starts the ranks
#SBATCH --cpus-per-task=288
#SBATCH --gpus-per-node=4        # each rank sees all GPUs and uses device LOCAL_RANK
#SBATCH --output=slurm-%x-%j.log # all ranks, each line with its task
#SBATCH --requeue
#SBATCH --signal=B:USR1@120      # two minutes before the limit
#SBATCH --open-mode=append       # a requeued run appends to the same file
command=(train.py --lr 0.1)
# Written by uenvtool. To write it again: uenvtool job --system clariden --runtime ce --image 'nvcr.io#nvidia/pytorch:25.06-py3' --launcher torchrun --account g123 --requeue --spare 1 -- python train.py --lr 0.1

set -e      # the job ends with the exit code of a failed step
ulimit -c 0 # no core dumps, which each crashing rank would write

# job.toml contains the variables of the container, because srun would pass variables from here into it.
export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
passed=() # the next line sets it to the nodes that pass
. "$SLURM_SUBMIT_DIR"/job.vet.sh
trap 'again=1; kill -USR1 "$step"' USR1 # Slurm sends USR1 two minutes before the time limit
srun -l -N 2 -n 2 -w "$(IFS=, && echo "${passed[*]}")" \
  -c "$SLURM_CPUS_PER_TASK" --cpu-bind=none \
  --environment=./job.toml bash -c '
  trap "" USR1 # torchrun ignores the signal, which Slurm also sends to the ranks
  export NODE_RANK="$SLURM_NODEID" TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="[rank \${rank}] "
  exec torchrun --nnodes="$NNODES" --nproc-per-node=4 --rdzv-backend=c10d \
    --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
    --log-dir="$LOGS" --tee=3 "$@"' torchrun "${command[@]}" &
step=$!
status=0
wait "$step" || status=$?
if [ -n "${again-}" ]; then # time limit: the training has 90 seconds after the signal to write its checkpoint and end
  if timeout 90 tail --pid="$step" -f /dev/null; then
    status=0
    wait "$step" || status=$?
  fi
  scontrol requeue "$SLURM_JOB_ID" || echo "the job was not requeued after run $((${SLURM_RESTART_COUNT:-0} + 1))" >&2
fi
exit "$status"
