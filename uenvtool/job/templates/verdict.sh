
if command -v uenvtool >/dev/null; then # is the network right, and as fast as it has been? Each run is kept, in a line
  uenvtool doctor --log "/proc/$$/fd/1" --system @SYSTEM@ --keep nccl-test.jsonl
fi
