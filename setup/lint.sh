#!/usr/bin/env bash
# Formatting, include rules and clang-tidy over every tracked source. --fix formats in place; with file names,
# only those files are looked at.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

fix=
if [ "${1:-}" = --fix ]; then
  fix=1
  shift
fi
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.h' '*.cc')
fi
# clang-tidy looks at what ships; tests and benchmarks are compiled with all warnings and run. It cannot parse
# libtorch 1.13's headers as C++20.
shipped='^(base|costmodel|balancer|decode|transport|loader|trainer_adapter|cli)/.*\.cc$'
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep -E "$shipped" |
  grep -v -e '^trainer_adapter/torch/' -e '^base/executor_thread.cc$' || true)

if [ -n "$fix" ]; then
  clang-format-19 -i "${files[@]}"
else
  clang-format-19 --dry-run --Werror "${files[@]}" || {
    echo "lint: not formatted; run ./run lint --fix" >&2
    exit 1
  }
fi
python3 setup/check_includes.py
setup/python_lint.sh

# clang-tidy costs seconds a file, so a file is looked at again only when it, a header that it includes, or the rules
# changed.
cache=build/lint
mkdir -p "$cache"
tidy() {
  local key=$1 source=$2 stamp
  stamp="$cache/$(printf '%s' "$source" | tr / _)-$key"
  [ -e "$stamp" ] && return 0
  if clang-tidy-19 --quiet -p build/release --extra-arg=-Wno-unknown-warning-option "$source" \
      >"$stamp.log" 2>&1; then
    mv "$stamp.log" "$stamp"
  else
    cat "$stamp.log" >&2
    rm "$stamp.log"
    return 1
  fi
}
export -f tidy
export cache
python3 setup/lint_keys.py "${sources[@]}" | xargs -P "$(nproc)" -L1 bash -c 'tidy "$@"' tidy
echo "lint: ${#files[@]} files, no findings"
