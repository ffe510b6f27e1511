#!/usr/bin/env bash
# Runs the tests that take too long for every change, before a release: ./run nightly [PART ...], by default all parts.
#   lint     clang-tidy over everything, with the static analyzer
#   unity    programs, trainers and the Python package, compiled as for users: files of a target together
#   torch2   the tests that meet torch, with a current PyTorch wheel
#   newest   those of them that meet transformers, accelerate, peft, trl and Lightning, with the newest versions of these
#   oldest   those that prepare samples for Qwen's models, with transformers 4.57
#   deepspeed  the one that meets DeepSpeed, in an environment of its own
#   megatron the flags of isocost plan --emit megatron, read by Megatron-LM's own parser
#   cells    C++ trainers in trees of their own, by several compilers, libtorches and standards
#   asan     all tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan     tests of concurrent code under ThreadSanitizer
#   fuzz     every fuzz target from its corpus: decoders for a minute, parsers for 10^6 executions, or each for
#            FUZZ_SECONDS seconds where that is set
#   figures  the figures of the documentation that take minutes to print
#   soak     a node whose ranks and decode workers are killed, for half an hour
#   package  Debian packages, wheels and the container image, each tried in a root of its own
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

. setup/functions.sh

fuzz() {
  ./run setup || return
  mkdir -p build
  cmake --preset fuzz >build/configure-fuzz.log || return
  local targets target failed=0
  mapfile -t targets < <(ninja -C build/fuzz -t targets all | sed -n 's/^\([a-z0-9_]*_fuzz\): phony$/\1/p' |
    grep -v '^cmake_')
  cmake --build build/fuzz --target "${targets[@]}" || return
  for target in "${targets[@]}"; do
    local corpus
    corpus=$(find tests -type d -path "*/corpus/$target")
    mkdir -p "build/fuzz/found/$target"
    local limit=(-runs=1000000)
    case "$target" in decode_*) limit=(-max_total_time=60) ;; esac
    [ -z "${FUZZ_SECONDS:-}" ] || limit=(-max_total_time="$FUZZ_SECONDS")
    # New inputs go to the first folder, a crash beside it.
    "build/fuzz/tests/$target" "${limit[@]}" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="build/fuzz/found/$target/crash-" "build/fuzz/found/$target" $corpus \
      >"build/fuzz/$target.log" 2>&1 || { tail -30 "build/fuzz/$target.log" >&2; failed=1; }
    say "  $target: $(sed -n 's/stat::number_of_executed_units: *//p' "build/fuzz/$target.log") executions"
  done
  return "$failed"
}

figures() {
  ./run build || return
  ISOCOST_BUILD=$PWD/build/release ISOCOST_FIGURES=all /usr/bin/python3 -B tests/docs/figures_test.py
}

unity() {
  ./run setup || return
  mkdir -p build
  cmake --preset release -B build/unity -DISOCOST_UNITY=ON -DISOCOST_BUILD_TESTS=OFF -DISOCOST_BUILD_BENCH=OFF \
    >build/configure-unity.log || return
  cmake --build build/unity --parallel "${JOBS:-$(nproc)}"
}

package() {
  local status=0 part
  for part in --image --portable; do
    ./run package "$part" || case $? in
      77) [ "$status" != 0 ] || status=77 ;;
      *) status=1 ;;
    esac
  done
  return "$status"
}

declare -A command=(
  [lint]='./run lint --all'
  [unity]='unity'
  [torch2]='./run test --torch2'
  [newest]='./run test --torch2 --newest'
  [oldest]='./run test --torch2 --oldest'
  [deepspeed]='./run test --torch2 --deepspeed'
  [megatron]='setup/megatron_flags.sh'
  [cells]='./run test --cells'
  [asan]='./run test --preset asan'
  [tsan]='./run test --preset tsan'
  [fuzz]='fuzz'
  [figures]='figures'
  [soak]='./run soak'
  [package]='package'
)
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(lint unity torch2 newest oldest deepspeed megatron cells asan tsan fuzz figures soak package)
for part in "${parts[@]}"; do
  [ -n "${command[$part]:-}" ] || { echo "nightly: no part '$part'; there are: ${!command[*]}" >&2; exit 2; }
done

summary=()
failed=0
for part in "${parts[@]}"; do
  say "== $part: ${command[$part]}"
  start=$SECONDS
  ${command[$part]}
  case $? in
    0) outcome=passed ;;
    77) outcome=skipped ;;
    *)
      outcome=FAILED
      failed=1
      ;;
  esac
  summary+=("$(printf '%-8s %-8s %3d min' "$part" "$outcome" $(((SECONDS - start + 30) / 60)))")
done
printf '%s\n' "${summary[@]}"
exit "$failed"
