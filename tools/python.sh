# Finds a Python for uenvtool: `find_python [MODULE]` sets $python, or says in one line which one is needed and how to get
# it. MODULE is one that it must have: without ensurepip, as Debian's has it, no environment can be made.
# For sh as it is on a login node; tools/install reads it, and tools/pyz puts it in front of the single file.
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
    echo "uenvtool: needs Python 3.10 to 3.14;${seen:- none is here,} get one with \`module load cray-python\` (or your" \
        "site's), \`uv python install 3.12\` or conda, and name it: PYTHON=/path/of/python3" >&2
    case $seen in *-without-ensurepip*) echo "uenvtool: on Debian and Ubuntu, \`apt install python3-venv\` will do" >&2 ;; esac
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
