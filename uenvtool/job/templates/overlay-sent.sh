# Each node unpacks the overlay @WHERE@, since nothing mounts it here.
overlay=@FOLDER@/overlay-$SLURM_JOB_ID
@CLEANER@sbcast --force @IMAGE@ "$overlay.squashfs"
srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1@CORES@ --cpu-bind=none bash -ec '
  command -v unsquashfs >/dev/null || { echo "no unsquashfs on $(hostname): take the folder of the overlay" >&2; exit 1; }
  unsquashfs -no-progress -no-xattrs -dest "$1" "$1.squashfs" >/dev/null
  rm "$1.squashfs"
' unpack "$overlay"
export PATH="$overlay/bin:$PATH" # python and torchrun of the overlay

