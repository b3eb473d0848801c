#!/bin/bash
# Tests ngc-pytorch:25.06-py3
# on nodes. Prints one line per test, and exits with 1 if a test fails.
# Made by uenvtool, again: uenvtool container ngc-pytorch-25.06
#   bash test.sh           run all tests; set your project in SBATCH_ACCOUNT or SLURM_ACCOUNT
#   bash test.sh NAME...   run only these tests
#   EDF=FILE bash test.sh  use another environment definition file
options=()

tests() {
  # name, nodes, tasks per node, a pattern that a line of the output must match, command
  # PyTorch sees the GPU
  run torch 1 1 '' python3 -c 'import torch; assert torch.cuda.is_available(); print(torch.__version__)'
}

expected() { # the variables that the image sets
  :
}

set -uo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")" || exit 1
edf=${EDF:-$PWD/ngc-pytorch.toml}
wanted=" $* " failed=''

started() { srun --environment="$edf" ${options[@]+"${options[@]}"} --nodes="$1" --ntasks-per-node="$2" "${@:3}"; }

is_wanted() { [[ $wanted == "  " || $wanted == *" $1 "* ]]; }

tell() { # NAME WHY: print the result of a test
  if [[ -z $2 ]]; then
    echo "ok      $1"
  else
    echo "FAILED  $1: $2" && failed=1
  fi
}

variables() {
  is_wanted variables || return 0
  local printed line why=''
  printed=$(started 1 1 env) || why="srun failed"
  while IFS= read -r line; do
    [[ -z $line || $'\n'$printed$'\n' == *$'\n'"$line"$'\n'* ]] || why="${why:-not set as expected:} $line"
  done < <(expected)
  tell variables "$why"
}

# run NAME NODES TASKS PRINTS COMMAND...
run() {
  is_wanted "$1" || return 0
  local output why=''
  output=$(started "$2" "$3" "${@:5}" 2>&1) || why="exit code $?"
  [[ -z $4 ]] || grep -Eq -- "$4" <<<"$output" || why="${why:-no line of the output matches: $4}"
  tell "$1" "$why"
  [[ -z $why ]] || printf '%s\n' "$output" | tail -n 20
}

variables
tests
[[ -z $failed ]]
