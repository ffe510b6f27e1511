#!/usr/bin/env bash
# Runs benchmarks: ./run bench [NAME ...], or ./run bench NAME OPTIONS, as ./run bench peers --quick; -- stands before
# arguments that do not begin with "-", as ./run bench photo_bench -- DIR. Each benchmark checks its answers before it
# times. Without names, all run but peers, paper, which re-simulates the experiments of the DFLOP paper, and those of
# bench/python, whose packages ./run test --torch2 installs.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

. setup/functions.sh

# Names of the benchmarks that need nothing else: programs that were built, and scripts of bench/loader.
plain_names() {
  {
    [ ! -d build/release/bench ] || find build/release/bench -maxdepth 1 -type f -executable -printf '%f\n'
    find bench/loader -name '*_bench.py' -printf '%f\n' | sed 's/\.py$//'
  } | sort
}
torch_names() { find bench/python -name '*.py' -printf '%f\n' | sed 's/\.py$//' | sort; }

if [ "${1:-}" = peers ]; then
  shift
  exec bench/peers/run.sh "$@"
fi
if [ "${1:-}" = paper ]; then
  shift
  exec bench/paper/run.sh "$@"
fi
names=()
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
  names+=("$1")
  shift
done
[ "${1:-}" != -- ] || shift
options=("$@")
if [ ${#names[@]} -eq 0 ]; then
  if asks_for_help "${options[@]}"; then
    head_of bench/run.sh
    printf 'Names: paper peers %s\n' "$({ plain_names; torch_names; } | tr '\n' ' ')"
    exit
  fi
  mapfile -t names < <(plain_names)
fi

# The comment or docstring at the head of a benchmark's source.
head_of_benchmark() {
  local source
  source=$(find bench -name "$1.py" -o -name "$1.cc" | head -1)
  case "$source" in
    *.py) python3 -c 'import ast, sys; print(ast.get_docstring(ast.parse(open(sys.argv[1]).read())))' "$source" ;;
    *.cc) sed -n '/^\/\//!q;s/^\/\/ \{0,1\}//p' "$source" ;;
    *) return 1 ;;
  esac
}
if asks_for_help "${options[@]}" && [ ${#names[@]} -eq 1 ] && head_of_benchmark "${names[0]}"; then
  exit
fi
if [ ${#options[@]} -gt 0 ] && [ ${#names[@]} -ne 1 ]; then
  echo "bench: options such as '${options[0]}' follow the name of one benchmark" >&2
  exit 2
fi
# The demo's data set is real media of every kind.
case " ${names[*]} " in
  *" prediction_error "* | *" node_memory "* | *" isolation_bench "* | *" vlm_finetune "* | \
    *" photo_bench "* | *" node_overhead "* | *" slow_storage_bench "* | *" mixture_bench "* | \
    *" server_latency_bench "*)
    python3 examples/demo/demo.py --media-only >&2
    ;;
esac
for name in "${names[@]}"; do
  program=build/release/bench/$name
  if [ -e "bench/loader/$name.py" ]; then
    printf '\n== %s\n' "$name"
    /usr/bin/python3 -B "bench/loader/$name.py" "${options[@]}"
    continue
  fi
  if [ -e "bench/python/$name.py" ]; then
    python=${ISOCOST_BENCH_PYTHON:-build/torch2/venv/bin/python}
    [ -x "$python" ] || {
      echo "bench: $name needs torch 2 and transformers: ./run test --torch2 installs both in build/torch2, or name" \
        "an interpreter that has them by ISOCOST_BENCH_PYTHON" >&2
      exit 2
    }
    printf '\n== %s\n' "$name"
    "$python" -B "bench/python/$name.py" "${options[@]}"
    continue
  fi
  { [ -f "$program" ] && [ -x "$program" ]; } || {
    echo "bench: no benchmark '$name'; there are: paper peers $({ plain_names; torch_names; } | tr '\n' ' ')" >&2
    exit 2
  }
  printf '\n== %s\n' "$name"
  "$program" "${options[@]}"
done
