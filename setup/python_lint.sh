#!/usr/bin/env bash
# ruff over all Python files of the repository, and mypy --strict over the package. The tools come from a package index
# into build/lint-venv. Where no index answers and they are not there yet, this step is skipped; an installation that
# fails, though an index answers, is an error.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

. setup/functions.sh

venv=build/lint-venv
status=0
venv_with python3 "$venv" 'mypy==1.19.*' 'ruff==0.14.*' || status=$?
case $status in
  0) ;;
  77)
    echo "python lint: skipped: there is no python3-venv, or no package index answers with mypy and ruff" >&2
    exit 77
    ;;
  *)
    echo "python lint: installing mypy and ruff into $venv failed; pip says why above" >&2
    exit 1
    ;;
esac
mapfile -d '' -t files < <(git ls-files -z '*.py' '*.pyi')
"$venv/bin/ruff" check --quiet "${files[@]}"
"$venv/bin/mypy"
