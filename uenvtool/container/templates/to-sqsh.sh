if ! command -v enroot >/dev/null; then
  echo "built $image; enroot is not here, so there is no squashfs file of it" >&2
  exit 0
fi
mkdir -p "$folder"
# Large files over all storage targets, small ones on one: thousands of processes read the image at once.
! command -v lfs >/dev/null || lfs setstripe -E 4M -c 1 -E 64M -c 4 -E -1 -c -1 -S 4M "$folder" ||
  echo "$folder is not on Lustre, so it is not striped" >&2
rm -f "$folder/$file.part"
enroot import -x mount -o "$folder/$file.part" "podman://$image"
mv "$folder/$file.part" "$folder/$file"
echo "$folder/$file"
