#!/usr/bin/env bash
# check.sh SOURCE: SOURCE compiles under clang's thread-safety analysis, and with each macro of its #ifdef and #ifndef
# lines defined the analysis refuses it. Exits with 77 (skipped) where clang++-19 is not installed.
set -euo pipefail
source=$1
root="$(dirname "$(readlink -f "$0")")/../.."
command -v clang++-19 >/dev/null || { echo "no clang++-19 here: skipped"; exit 77; }
compile=(clang++-19 -std=c++20 -I "$root" -fsyntax-only -Wthread-safety -Werror=thread-safety)

"${compile[@]}" "$source" || { echo "$source: the twin without a mistake does not compile" >&2; exit 1; }
mapfile -t cases < <(grep -oP '^#ifn?def \K\w+' "$source")
[ "${#cases[@]}" -gt 0 ] || { echo "$source: no cases" >&2; exit 1; }
for case in "${cases[@]}"; do
  if output=$("${compile[@]}" "-D$case" "$source" 2>&1); then
    echo "$source: compiles with $case" >&2
    exit 1
  fi
  # Refused for this reason and no other.
  other=$(grep ' error: ' <<<"$output" | grep -v 'Wthread-safety' || true)
  [ -z "$other" ] || { echo "$case: $other" >&2; exit 1; }
  echo "$case: refused"
done
