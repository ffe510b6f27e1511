#!/usr/bin/env bash
# Makes a virtual environment with OR-Tools in build/paper, then runs paper.py with the arguments: ./run bench paper.
# Where no package index answers, paper.py runs without: plans that docs/benchmarks/paper.json keeps are used.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

. setup/functions.sh

case " $* " in
  *" --help "* | *" -h "*) exec python3 -B bench/paper/paper.py --help ;;
esac
venv=build/paper/venv
status=0
venv_with python3 "$venv" 'ortools==9.15.*' || status=$?
case $status in
  0) exec "$venv/bin/python" -B bench/paper/paper.py "$@" ;;
  77) exec python3 -B bench/paper/paper.py "$@" ;;
  *)
    echo "bench: installing OR-Tools into $venv failed; pip says why above" >&2
    exit 1
    ;;
esac
