export LOGS="logs/$SLURM_JOB_NAME-@NUMBER@" # the directory for the output of each rank
export PYTHONUNBUFFERED=1 # print each line immediately
mkdir -p "$LOGS"
@RECORD@@IN_LOGS@MASTER_ADDR=$(@ADDRESS@) # rank 0 runs on the first node, like this script
export MASTER_ADDR MASTER_PORT=@PORT@ # unique per job, so that jobs on one node do not collide
export NNODES="$SLURM_NNODES"
