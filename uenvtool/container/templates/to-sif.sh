mkdir -p "$folder"
rm -f "$folder/$file.tar" "$folder/$file.part"
podman save --format docker-archive --output "$folder/$file.tar" "$image"
if ! command -v @PROGRAM@ >/dev/null; then
  echo "@PROGRAM@ is not installed; copy $folder/$file.tar to a machine that has it, and run:" >&2
  echo "  @PROGRAM@ build $file docker-archive:$file.tar" >&2
  exit 0
fi
@PROGRAM@ build "$folder/$file.part" "docker-archive:$folder/$file.tar"
mv "$folder/$file.part" "$folder/$file"
rm "$folder/$file.tar"
echo "$folder/$file"
