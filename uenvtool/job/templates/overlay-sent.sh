# Each node unpacks the overlay @WHERE@, because this runtime cannot mount it.
overlay=@FOLDER@/overlay-$SLURM_JOB_ID
@CLEANER@sbcast --force @IMAGE@ "$overlay.squashfs"
srun -N "$SLURM_NNODES" -n "$SLURM_NNODES" --ntasks-per-node=1@CORES@ --cpu-bind=none bash -ec '
  command -v unsquashfs >/dev/null || { echo "unsquashfs is not installed on $(hostname): use the unpacked overlay" >&2; exit 1; }
  unsquashfs -no-progress -no-xattrs -dest "$1" "$1.squashfs" >/dev/null
  rm "$1.squashfs"
' unpack "$overlay"
export PATH="$overlay/bin:$PATH" # python and torchrun of the overlay

