if ! command -v enroot >/dev/null; then
  echo "built $image; enroot is not installed, so no squashfs file was written" >&2
  exit 0
fi
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)
# On Lustre, use one storage target for small files and all for large ones: thousands of processes read the image.
! command -v lfs >/dev/null || lfs setstripe -E 4M -c 1 -E 64M -c 4 -E -1 -c -1 -S 4M "$folder" ||
  echo "$folder is not striped, since it is not on Lustre" >&2
rm -f "$folder/$file.part"
enroot import -x mount -o "$folder/$file.part" "podman://$image"
mv "$folder/$file.part" "$folder/$file"
edf=$folder/${file%.sqsh}.toml # the same EDF with the image's path, because Sarus Suite expands no variable in it
{
  echo "image = \"$folder/$file\""
  grep -v '^image = ' @EDF@
} >"$edf"
printf '%s\n' "$folder/$file" "$edf"
