environment=$(realpath -s @IMAGE@)
[ -x "$environment/bin/python" ] || { echo "not a Python environment: $environment" >&2; exit 1; }
export PATH="$environment/bin:$PATH" CONDA_PREFIX="$environment"

