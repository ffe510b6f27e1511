#!/usr/bin/env bash
# Debian packages and a wheel in build/packages, and, as root, a trial of each in a fresh Debian 12 root.
#   --portable   instead self-contained wheels, which need no library of the system, in build/packages/portable: for each
#                CPython from 3.10 to 3.14 that is here (--portable=3.12: for that one), each tested with a current PyTorch
#                wheel beside build/release; needs a package index
#   --image      also carry out deploy/Dockerfile, in Debian 12 roots instead of containers (compiles without a cache)
#   --no-trial   only make them
# Those of an earlier call are removed, self-contained wheels and the others apart.
# Exit status: 77 if a part was skipped, which is said.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

portable=
image=
trial=1
for argument in "$@"; do
  case "$argument" in
    --portable) portable=all ;;
    --portable=3.1[0-4]) portable=${argument#*=} ;;
    --image) image=1 ;;
    --no-trial) trial= ;;
    *)
      echo "package: unknown argument '$argument' (--portable, --portable=3.10 to 3.14, --image, --no-trial)" >&2
      exit 2
      ;;
  esac
done

jobs=${JOBS:-$(nproc)}
tree=build/package
packages=build/packages
skipped=

. setup/functions.sh
# part COMMAND...: a part of the trial, which ends with 77 where it was skipped.
part() {
  local status=0
  "$@" || status=$?
  case $status in
    0) ;;
    77) skipped=1 ;;
    *) exit "$status" ;;
  esac
}
size() { du --apparent-size -h "$@" | sed 's/^/  /' >&2; }

debian_packages() {
  rm -f "$packages"/*.deb
  say "building in $tree"
  cmake --preset release -B "$tree" -DISOCOST_UNITY=ON -DISOCOST_BUILD_TESTS=OFF -DISOCOST_BUILD_BENCH=OFF \
    >"$tree/configure.log"
  cmake --build "$tree" --parallel "$jobs" --target isocost isocost-lab isocost_python isocost_torch
  say "Debian packages"
  (cd "$tree" && cpack >cpack.log) || { cat "$tree/cpack.log" >&2; exit 1; }
  rm -r "$packages/_CPack_Packages"
  size "$packages"/*.deb
}

# The build tools of a wheel are not in Debian 12.
wheel() {
  local venv=$tree/venv status=0
  say "wheel"
  venv_with /usr/bin/python3 "$venv" scikit-build-core pybind11 || status=$?
  case $status in
    0) ;;
    77)
      say "skipped, no package index answers"
      skipped=1
      return
      ;;
    *) exit "$status" ;;
  esac
  rm -f "$packages"/*.whl
  CC=cc CXX=c++ "$venv/bin/pip" wheel --quiet . --no-deps --no-build-isolation -w "$packages"
  size "$packages"/*.whl
}

portable_wheels() {
  local versions=()
  [ "$portable" = all ] || versions=("$portable")
  rm -f "$packages"/portable/*.whl # All that are there are tested.
  setup/portable/build_wheels.sh "$packages/portable" "${versions[@]}"
  size "$packages"/portable/*.whl
}

test_portable_wheels() {
  local wheel
  ./run build
  for wheel in "$packages"/portable/*.whl; do part setup/portable/test_wheel.sh --torch2 "$wheel"; done
}

mkdir -p "$tree" "$packages"
if [ -n "$portable" ]; then
  portable_wheels
else
  debian_packages
  wheel
fi

[ -n "$trial" ] || exit 0
[ -z "$portable" ] || test_portable_wheels
if [ "$(id -u)" != 0 ]; then
  say "trial: skipped, debootstrap needs root"
  exit 77
fi
part setup/try_packages.sh
if [ -n "$image" ]; then
  say "deploy/Dockerfile"
  setup/try_dockerfile.py deploy/Dockerfile "$tree/debian12.tar"
fi
[ -z "$skipped" ] || exit 77
