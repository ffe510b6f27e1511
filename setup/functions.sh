# Functions that the project's scripts share; to be sourced.

# head_of SCRIPT: the comment at its head, which is its help.
head_of() { sed -n '1d;/^#/!q;s/^# \{0,1\}//p' "$1"; }

# asks_for_help ARGUMENTS...
asks_for_help() {
  local argument
  for argument in "$@"; do
    case "$argument" in -h | --help) return 0 ;; esac
  done
  return 1
}

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
  index_answers "$venv" "${1%%[<>=]*}" || return 77
  "$venv/bin/pip" install --quiet --no-input "$@" || return 1
  echo "$*" >"$venv/complete"
}
