image=@IMAGE@
binds=(@BINDS@)
for path in "${binds[@]}"@CHECKED@; do
  [ -e "${path%%:*}" ] || { echo "missing on $(hostname): ${path%%:*}" >&2; exit 1; }
done

