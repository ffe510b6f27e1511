# What the project's scripts share; to be sourced.

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

# index_answers VENV NAME: whether a package index has NAME, known within nine seconds.
index_answers() {
  timeout 9 "$1/bin/pip" index versions "$2" --retries 0 --timeout 8 >/dev/null 2>&1
}

# venv_with PYTHON VENV NAMES...: a virtual environment with these packages, made once. Status 77 where PYTHON makes
# none, or no package index answers.
venv_with() {
  local python=$1 venv=$2
  shift 2
  [ "$(cat "$venv/complete" 2>/dev/null)" != "$*" ] || return 0
  mkdir -p "$(dirname "$venv")"
  "$python" -m venv "$venv" >/dev/null 2>&1 || return 77
  index_answers "$venv" "${1%%=*}" || return 77
  "$venv/bin/pip" install --quiet --no-input "$@" || return 1
  echo "$*" >"$venv/complete"
}
