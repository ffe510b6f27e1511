#!/usr/bin/env bash
# Formatting, include rules, names that files of a target share, openings of comments, links of the pages, tests that no
# CMakeLists.txt has, ruff and mypy over every tracked file; subjects of the commits that changed something; clang-tidy
# and include-cleaner (no include without a use) over what changed and what includes it.
#   --all          over everything, and clang-tidy with the static analyzer's checks, which take most of the time
#   --since COMMIT what changed since then (default: where the branch left origin/main, else the last ten commits)
#   --fix          format in place
#   FILES          only these
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

fix=
all=
since=
while [ $# -gt 0 ]; do
  case "$1" in
    --fix) fix=1 ;;
    --all) all=1 ;;
    --since)
      since=${2:?--since needs a commit}
      shift
      ;;
    -*)
      echo "lint: unknown option '$1' (--all, --since COMMIT, --fix)" >&2
      exit 2
      ;;
    *) break ;;
  esac
  shift
done
given=$#
if [ "$given" -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.h' '*.cc')
fi
# clang-tidy looks at what ships; tests and benchmarks are compiled with all warnings and run. It cannot parse
# libtorch 1.13's headers as C++20.
shipped='^(base|costmodel|balancer|decode|transport|loader|trainer_adapter|cli)/.*\.cc$'
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep -E "$shipped" |
  grep -v -e '^trainer_adapter/torch/' -e '^base/executor/executor_thread.cc$' || true)

# clang-format would treat files of other languages as C++.
mapfile -t files < <(printf '%s\n' "${files[@]}" | grep -E '\.(h|cc)$' || true)

if [ ${#files[@]} -eq 0 ]; then
  : # nothing to format
elif [ -n "$fix" ]; then
  clang-format-19 -i "${files[@]}"
else
  clang-format-19 --dry-run --Werror "${files[@]}" || {
    echo "lint: not formatted; run ./run lint --fix" >&2
    exit 1
  }
fi
python3 setup/check_includes.py
python3 setup/check_links.py
python3 setup/check_tests.py
python3 setup/check_names.py build/lint/commands
setup/python_lint.sh || [ $? = 77 ] # skipped, and said so

# base_commit: the newest commit that somebody else has looked at.
base_commit() {
  local fork
  fork=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [ -n "$fork" ] && [ "$fork" != "$(git rev-parse HEAD)" ]; then
    echo "$fork"
  else
    git rev-parse --quiet --verify HEAD~10 || git rev-list --max-parents=0 HEAD | tail -1
  fi
}

scope=()
checks=()
if [ -z "$all" ]; then
  checks=(--checks=-clang-analyzer-*)
  if [ "$given" = 0 ]; then
    since=${since:-$(base_commit)}
    git rev-parse --quiet --verify "$since^{commit}" >/dev/null || {
      echo "lint: --since $since: no such commit" >&2
      exit 2
    }
    mapfile -t scope < <(git diff --name-only "$since"; git ls-files --others --exclude-standard)
    scope=(--changed "${scope[@]}" --)
  fi
fi

python3 setup/check_comments.py --since "${since:-$(base_commit)}"

# unused_includes SOURCE: prints them, and fails if there are any. That nothing is included by way of others is not asked.
unused_includes() {
  local found
  # Those libraries' manuals name a header that forwards to others.
  found=$(clang-include-cleaner-19 --print=changes --insert=0 --ignore-headers='(fmt|spdlog|nlohmann|CLI|libav.*|pybind11|toml..)/.*' \
    -p build/lint/commands --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error "$1" 2>/dev/null) || true
  [ -z "$found" ] || printf '%s: not used: %s\n' "$1" "$found"
  [ -z "$found" ]
}
export -f unused_includes

# vectors_compile SOURCE: clang-tidy sees the plain code of what Highway compiles for each set of instructions, and clang
# takes attributes of the target otherwise than gcc: the presets tsan and fuzz need it.
vectors_compile() {
  ! grep -q foreach_target.h "$1" || clang++-19 -std=c++20 -O1 -w -I. -c -o /dev/null "$1"
}
export -f vectors_compile

# clang-tidy costs seconds a file, so a file is looked at again only when it, a header that it includes, or the rules
# changed.
export cache=build/lint/${all:+all}
export checks_option=${checks[*]:-}
mkdir -p "$cache"
tidy() {
  local key=$1 source=$2 stamp
  stamp="$cache/$(printf '%s' "$source" | tr / _)-$key"
  [ -e "$stamp" ] && return 0
  # -Wno-error: the build's -Werror would make errors of what only clang warns of.
  if clang-tidy-19 --quiet $checks_option -p build/lint/commands --extra-arg=-Wno-unknown-warning-option \
      --extra-arg=-Wno-error "$source" >"$stamp.log" 2>&1 && unused_includes "$source" >>"$stamp.log" &&
      vectors_compile "$source" >>"$stamp.log" 2>&1; then
    mv "$stamp.log" "$stamp"
  else
    cat "$stamp.log" >&2
    rm "$stamp.log"
    return 1
  fi
}
export -f tidy
python3 setup/lint_keys.py "${scope[@]}" "${sources[@]}" >build/lint/pending
xargs -r -P "$(nproc)" -L1 bash -c 'tidy "$@"' tidy <build/lint/pending
echo "lint: ${#files[@]} files formatted, clang-tidy over $(wc -l <build/lint/pending) of ${#sources[@]}${since:+ (changed since $(git rev-parse --short "$since"))}: no findings"
