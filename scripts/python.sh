# Finds a Python for uenvtool: `find_python` sets $python, or says in one line which one is needed and how to get it.
# For sh as it is on a login node; scripts/install reads it, and scripts/pyz puts it in front of the single file.
find_python() {
    seen=
    for python in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3.1[0-3] \
        /opt/cray/pe/python/3.1[0-3]*/bin/python3 "$HOME"/.local/share/uv/python/cpython-3.1[0-3]*/bin/python3; do
        program=$(command -v "$python" 2>/dev/null) || continue
        found=$(env -u PYTHONHOME -u PYTHONPATH "$program" -I -c "$ask" 2>/dev/null) || continue
        case $found in
        *" 3.1"[0-3]" /user-environment"* | /user-environment*" 3.1"[0-3]" "*)
            [ "${PYTHON:-}" = "$python" ] || { inside=$program && continue; }
            ;;
        *" 3.1"[0-3]" "*) ;;
        *)
            version=${found#* }
            seen="$seen $python is ${version%% *},"
            [ -z "${PYTHON:-}" ] || break
            continue
            ;;
        esac
        python=${found%% *}
        return 0
    done
    if [ -n "${inside:-}" ]; then
        python=$inside
        echo "uenvtool: warning: no Python but the loaded uenv's is here: outside of this uenv it will not start" >&2
        return 0
    fi
    python=
    echo "uenvtool: needs Python 3.10 to 3.13;${seen:- none is here,} get one with \`module load cray-python\` (or your" \
        "site's), \`uv python install 3.12\` or conda, and name it: PYTHON=/path/of/python3" >&2
    return 1
}
ask='import sys; print(sys.executable, "%d.%d" % sys.version_info[:2], getattr(sys, "base_prefix", sys.prefix))'
