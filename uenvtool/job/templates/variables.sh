export LOGS="logs/$SLURM_JOB_NAME-$SLURM_JOB_ID" # the output of each rank
export PYTHONUNBUFFERED=1 # whole lines, at once
mkdir -p "$LOGS"
@IN_LOGS@MASTER_ADDR=$(@ADDRESS@) # rank 0 runs on the first node, as this script does
export MASTER_ADDR MASTER_PORT=@PORT@ # the job's own: two jobs on a node do not meet
export NNODES="$SLURM_NNODES"
