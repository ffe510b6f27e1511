#!/usr/bin/env bash
# Runs benchmarks: ./run bench [NAME ...]; without names all but those of bench/python, whose packages ./run test --torch2
# installs, and peers, whose arguments follow its name: ./run bench peers --quick. Each checks its answers before it times.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

if [ "${1:-}" = peers ]; then
  shift
  exec bench/peers/run.sh "$@"
fi
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  mapfile -t names < <({
    find build/release/bench -maxdepth 1 -type f -executable -printf '%f\n'
    find bench/loader -name '*_bench.py' -printf '%f\n' | sed 's/\.py$//'
  } | sort)
fi
# The demo's data set is real media of every kind.
case " ${names[*]} " in
  *" prediction_error "* | *" node_memory "* | *" isolation_bench "* | *" vlm_finetune "* | \
    *" photo_bench "* | *" node_overhead "* | *" slow_storage_bench "*)
    python3 examples/demo/demo.py --media-only >&2
    ;;
esac
for name in "${names[@]}"; do
  program=build/release/bench/$name
  if [ -e "bench/loader/$name.py" ]; then
    printf '\n== %s\n' "$name"
    /usr/bin/python3 -B "bench/loader/$name.py"
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
    "$python" -B "bench/python/$name.py"
    continue
  fi
  [ -x "$program" ] || {
    echo "bench: no benchmark '$name'; there are: peers $(ls build/release/bench 2>/dev/null | tr '\n' ' ')" >&2
    exit 2
  }
  printf '\n== %s\n' "$name"
  "$program"
done
