#!/usr/bin/env bash
# Tests a self-contained wheel beside build/release: test_wheel.sh [--torch2] WHEEL. Its list of components has to be true
# (check_wheel.py). The tensors of every format have to be those of build/release, also as a processor without AVX decodes
# them, and as one without AVX2 runs the trainer. With --torch2 the programs of tests/python run with the wheel and a
# current PyTorch wheel; otherwise, as for every change, the shortest of them that deliver microbatches, and those that
# read from servers, with Debian's torch.
# Exit status: 77 where there is no such Python, no torch for it, or no package index that answers.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
cd "$here/../.."
torch2=
[ "$1" != --torch2 ] || { torch2=1; shift; }
wheel=$(readlink -f "$1")

. setup/functions.sh
. "$here/pythons.sh"

version=$(sed 's/.*-cp3\([0-9]*\)-cp3.*/3.\1/' <<<"$wheel")
python=$(find_python "$version") || { say "CPython $version: skipped, there is none"; exit 77; }
[ "$(stat -c %s "$wheel")" -le $((30 << 20)) ] || { echo "portable: $wheel has more than 30 MB" >&2; exit 1; }
if [ -n "$torch2" ]; then
  venv=$PWD/build/portable/torch2-$version
  setup/torch2_venv.sh "$python" "$venv" >/dev/null
  tests='^python_'
else
  venv=$PWD/build/portable/debian-torch-$version
  tests='^python_(bad_input|conversation|end|loader|microbatch|normalised|process|resume|servers|steps|tls)_test$'
  [ -e "$venv/bin/python" ] || /usr/bin/python3 -m venv --system-site-packages "$venv"
  "$venv/bin/python" -c "import sys, torch; sys.exit('3.%d' % sys.version_info[1] != '$version')" 2>/dev/null ||
    { say "CPython $version: skipped, it is not the system's, or has no torch"; exit 77; }
fi
"$venv/bin/pip" install --quiet --no-index --no-deps --force-reinstall "$wheel"

python3 -B "$here/check_wheel.py" "$wheel" "$venv/bin/isocost"

say "tensors of every format by the wheel for CPython $version"
tensors=$(mktemp -d "$PWD/build/portable/tensors.XXXXXX")
trap 'rm -rf "$tensors"' EXIT
media=$tensors/media
setup/make_media.sh "$media"
components=$("$venv/bin/isocost" --version --components)
if [[ $components != *libavif* ]]; then
  say "skipped: AVIF, which this wheel does not read, since the archive lacked files of libavif"
  rm "$media"/*avif*
fi
# tensors NAME PYTHON PROGRAM [PYTHONPATH]
tensors() {
  ISOCOST_PROGRAM=$3 PYTHONPATH=${4:-} "$2" -B "$here/media_tensors.py" save "$media" "$tensors/$1.npz"
}
compare() { "$venv/bin/python" -B "$here/media_tensors.py" compare "$tensors/$1.npz" "$tensors/$2.npz" "${@:3}"; }
tensors release /usr/bin/python3 "$PWD/build/release/isocost" "$PWD/build/release/python"
tensors wheel "$venv/bin/python" "$venv/bin/isocost"
compare release wheel
cp "$tensors/wheel.npz" "build/portable/tensors$version.npz"
if command -v qemu-x86_64 >/dev/null; then
  old=$tensors/isocost
  # The command of the wheel is a script that starts the program.
  program=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/isocost.scripts/isocost
  printf '#!/bin/sh\nexec qemu-x86_64 -cpu Nehalem %q "$@"\n' "$program" >"$old"
  chmod +x "$old"
  tensors without_avx "$venv/bin/python" "$old"
  compare wheel without_avx --sounds-within 1e-4
  # The trainer's process with the extension module, as a processor with AVX and without AVX2 runs it: PyTorch needs AVX.
  trainer=$tensors/python
  printf '#!/bin/sh\nexec qemu-x86_64 -cpu SandyBridge %q "$@"\n' "$venv/bin/python" >"$trainer"
  chmod +x "$trainer"
  tensors without_avx2 "$trainer" "$venv/bin/isocost"
  compare wheel without_avx2
else
  say "skipped: a processor without AVX, for which qemu-x86_64 is not installed"
fi

say "tests/python with the wheel for CPython $version"
tree=build/portable/tests$version
cmake --preset release -B "$tree" -DISOCOST_BUILD_BENCH=OFF "-DISOCOST_TEST_INSTALLED=$venv" >"$tree.log" 2>&1 ||
  { cat "$tree.log" >&2; exit 1; }
status=0
# Left out are tests of what a wheel is not: a module made with Debian's pybind11, and a checkout without the package.
without='generated|gpu_bench'
if [ "$version" = 3.10 ]; then
  say "skipped: the Trainer and sweeps of pictures, whose tests need transformers 5.24 and Pillow 13: not for CPython 3.10"
  without+='|model_images|trainer.*'
fi
ctest --test-dir "$tree" -R "$tests" -E "^python_($without)_test\$" --no-tests=error \
  --output-on-failure --parallel "${JOBS:-$(nproc)}" \
  --output-junit "$PWD/$tree/junit.xml" || status=$?
python3 setup/test_summary.py "$tree/junit.xml"
exit "$status"
