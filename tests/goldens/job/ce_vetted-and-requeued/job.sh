#!/bin/bash
#SBATCH --job-name=train
#SBATCH --account=g123
#SBATCH --nodes=3                # 1 more than training needs, see --vet
#SBATCH --time=01:00:00
#SBATCH --ntasks-per-node=1      # torchrun starts the ranks
#SBATCH --cpus-per-task=288
#SBATCH --gpus-per-node=4        # each rank sees all; its own is device LOCAL_RANK
#SBATCH --output=slurm-%x-%j.log # all ranks, each line with its task
#SBATCH --requeue
#SBATCH --signal=B:USR1@120      # two minutes before the limit
#SBATCH --open-mode=append       # a later run writes on in the same file
command=(train.py --lr 0.1)
# Made by uenvtool, again: uenvtool job --system clariden --runtime ce --image 'nvcr.io#nvidia/pytorch:25.06-py3' --launcher torchrun --account g123 --requeue --spare 1 -- python train.py --lr 0.1

set -e      # a step that fails ends the job with its exit code
ulimit -c 0 # no core dumps, one from each rank that crashes

# job.toml has the container's variables: what is set here, srun would hand on into it.
export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the output of each rank
export PYTHONUNBUFFERED=1 # whole lines, at once
mkdir -p "$LOGS"
MASTER_ADDR=$(hostname) # rank 0 runs on the first node, as this script does
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000)) # the job's own: two jobs on a node do not meet
export NNODES="$SLURM_NNODES"
passed=() # the nodes that pass, as the next line finds out
. "$SLURM_SUBMIT_DIR"/job.vet.sh
trap 'again=1; kill -USR1 "$step"' USR1 # two minutes before the limit
srun -l -N 2 -n 2 -w "$(IFS=, && echo "${passed[*]}")" \
  -c "$SLURM_CPUS_PER_TASK" --cpu-bind=none \
  --environment=./job.toml bash -c '
  trap "" USR1 # torchrun itself ignores the signal; the ranks get it too
  export NODE_RANK="$SLURM_NODEID" TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="[rank \${rank}] "
  exec torchrun --nnodes="$NNODES" --nproc-per-node=4 --rdzv-backend=c10d \
    --rdzv-id="$SLURM_JOB_ID" --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" \
    --log-dir="$LOGS" --tee=3 "$@"' torchrun "${command[@]}" &
step=$!
status=0
wait "$step" || status=$?
if [ -n "${again-}" ]; then # the limit came: training has the signal, and 90 seconds to write its checkpoint and end
  if timeout 90 tail --pid="$step" -f /dev/null; then
    status=0
    wait "$step" || status=$?
  fi
  scontrol requeue "$SLURM_JOB_ID" || echo "not queued again: this was run $((${SLURM_RESTART_COUNT:-0} + 1))" >&2
fi
exit "$status"
