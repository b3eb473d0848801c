
if command -v uenvtool >/dev/null; then # check the network and its speed
  uenvtool doctor --log "/proc/$$/fd/1" --system @SYSTEM@
fi
