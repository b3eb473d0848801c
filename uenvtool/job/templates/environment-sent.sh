# Each node unpacks the environment @WHERE@, where opening its thousands of files is faster.
environment=@FOLDER@/environment-$SLURM_JOB_ID
@CLEANER@sbcast --force @IMAGE@ "$environment.tar.gz"
srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1@CORES@ --cpu-bind=none bash -ec '
  mkdir -p "$1"
  tar -xzf "$1.tar.gz" -C "$1"
  rm "$1.tar.gz"
  PATH="$1/bin:$PATH"
  conda-unpack # replaces the paths of the original environment
' unpack "$environment"
export PATH="$environment/bin:$PATH" CONDA_PREFIX="$environment"

