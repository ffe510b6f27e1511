#!/usr/bin/env bash
# ruff over the package, its tests and its examples, and mypy --strict over the package. The tools come from a package
# index into build/lint-venv; where no index answers and they are not there yet, this step is skipped.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

venv=build/lint-venv
tools=(mypy==1.19.* ruff==0.14.*)
if [ "$(cat "$venv/complete" 2>/dev/null)" != "${tools[*]}" ]; then
  mkdir -p build
  python3 -m venv "$venv" >/dev/null 2>&1 || {
    echo "python lint: skipped: python3 makes no virtual environment (python3-venv is not installed)" >&2
    exit 0
  }
  if ! timeout 9 "$venv/bin/pip" index versions ruff --retries 0 --timeout 8 >/dev/null 2>&1; then
    echo "python lint: skipped: no package index answers, so there is no mypy and no ruff" >&2
    exit 0
  fi
  "$venv/bin/pip" install --quiet --no-input "${tools[@]}"
  echo "${tools[*]}" >"$venv/complete"
fi
"$venv/bin/ruff" check --quiet trainer_adapter/python tests/python examples/python
"$venv/bin/mypy"
