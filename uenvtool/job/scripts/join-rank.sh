# Runs a command or a shell with the variables, the directory and the container of the process $0.
variables=()
while IFS= read -r -d '' line; do
    variables+=("$line")
done <"/proc/$0/environ"
((${#variables[@]})) || { echo "process $0 has ended" >&2 && exit 1; }
folder=$(readlink "/proc/$0/cwd")
inside=(env -i --)
if [[ $(readlink "/proc/$0/ns/user") != "$(readlink /proc/self/ns/user)" ]]; then # a rootless container
    inside=(nsenter --preserve-credentials --user --mount --target "$0" env -i --)
fi
cd "$folder" || exit
(($#)) || set -- "${SHELL:-bash}"
exec "${inside[@]}" "${variables[@]}" ${TERM:+TERM="$TERM"} UENVTOOL_RANK_PID="$0" "$@"
