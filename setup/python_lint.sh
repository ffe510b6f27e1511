#!/usr/bin/env bash
# ruff over the package, its tests and its examples, and mypy --strict over the package. The tools come from a package
# index into build/lint-venv; where no index answers and they are not there yet, this step is skipped.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

. setup/functions.sh

venv=build/lint-venv
venv_with python3 "$venv" 'mypy==1.19.*' 'ruff==0.14.*' || {
  [ $? = 77 ] || exit 1
  echo "python lint: skipped: there is no python3-venv, or no package index answers with mypy and ruff" >&2
  exit 0
}
"$venv/bin/ruff" check --quiet trainer_adapter/python tests/python examples/python
"$venv/bin/mypy"
