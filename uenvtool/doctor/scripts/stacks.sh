# Prints one line for each process among the arguments RANK:PID:NODE that runs on this node: the rank, the node, and where
# the process waits. The frames are from py-spy, if the node or the environment of the rank has it, or else from /proc.
for process; do
    IFS=: read -r rank pid node <<<"$process"
    [[ $node == "$SLURMD_NODENAME" && -r /proc/$pid/environ ]] || continue
    path=''
    while IFS= read -r -d '' line; do
        [[ $line != PATH=* ]] || path=${line#PATH=}
    done <"/proc/$pid/environ"
    stack=''
    if spy=$(PATH=$PATH:$path command -v py-spy); then
        stack=$(timeout 20 "$spy" dump --nonblocking --pid "$pid" 2>/dev/null)
    fi
    if [[ ! $stack ]]; then
        read -r line 2>/dev/null <"/proc/$pid/stat" || continue
        IFS= read -r -d '' channel 2>/dev/null <"/proc/$pid/wchan"
        read -r call _ 2>/dev/null <"/proc/$pid/syscall" || call=''
        line=${line##*) }
        stack="proc ${line%% *} ${channel:-0} ${call:-unknown}"
    fi
    printf '%s\t%s\t%s\n' "$rank" "$node" "${stack//$'\n'/$'\v'}"
done
