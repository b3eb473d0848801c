# Finds a Python for uenvtool. `find_python [MODULE]` sets $python, or prints which Python is needed and how to get it.
# The Python must have MODULE. For example, a Python without ensurepip (Debian) cannot create a virtual environment.
# This script is for the sh of a login node. tools/install sources it, and tools/pyz copies it into the single file.
find_python() {
    seen=
    for python in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python3.10 /usr/bin/python3.1[0-4] \
        /opt/cray/pe/python/3.1[0-4]*/bin/python3 "$HOME"/.local/share/uv/python/cpython-3.1[0-4]*/bin/python3; do
        program=$(command -v "$python" 2>/dev/null) || continue
        found=$(env -u PYTHONHOME -u PYTHONPATH "$program" -I -c "$ask" "$@" 2>/dev/null) || continue
        case $found in
        *" 3.1"[0-4]" /user-environment"* | /user-environment*" 3.1"[0-4]" "*)
            [ "${PYTHON:-}" = "$python" ] || { inside=$program && continue; }
            ;;
        *" 3.1"[0-4]" "*) ;;
        *)
            version=${found#* }
            seen="$seen $python is ${version%% *};"
            [ -z "${PYTHON:-}" ] || break
            continue
            ;;
        esac
        python=${found%% *}
        return 0
    done
    if [ -n "${inside:-}" ]; then
        python=$inside
        echo "uenvtool: warning: using the loaded uenv's Python; uenvtool will not start outside of this uenv" >&2
        return 0
    fi
    python=
    echo "uenvtool: needs Python 3.10 to 3.14;${seen:- no Python was found;} load another Python with \`module load" \
        "cray-python\` (or your site's module), or install one with \`uv python install 3.12\` or conda;" \
        "PYTHON=/path/of/python3 selects it" >&2
    case $seen in *-without-ensurepip*) echo "uenvtool: on Debian and Ubuntu, run \`apt install python3-venv\`" >&2 ;; esac
    return 1
}
ask='
import sys
version = "%d.%d" % sys.version_info[:2]
for name in sys.argv[1:]:
    try:
        __import__(name)
    except ImportError:
        version += "-without-" + name
print(sys.executable, version, getattr(sys, "base_prefix", sys.prefix))'
