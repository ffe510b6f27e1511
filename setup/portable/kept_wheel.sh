#!/usr/bin/env bash
# For every change: builds a self-contained wheel for the system's Python, and tests it with Debian's torch. It does so
# from libraries that an earlier `./run package --portable` has kept. Without them, or without a package index, it passes
# and says that it was skipped.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

. setup/functions.sh

setup/portable/build_libraries.sh --kept >/dev/null || {
  say "skipped: a self-contained wheel, whose libraries are not kept (./run package --portable builds them)"
  exit 0
}
version=$(/usr/bin/python3 -c 'import sys; print("3.%d" % sys.version_info[1])')
status=0
./run package --portable="$version" --no-trial || status=$?
[ $status != 77 ] || { say "skipped: a self-contained wheel, for which no package index answers"; exit 0; }
[ $status = 0 ] || exit "$status"
setup/portable/test_wheel.sh build/packages/portable/*.whl || status=$?
[ $status != 77 ] || { say "skipped: the test of a self-contained wheel, for which the system's Python has no torch"; exit 0; }
exit "$status"
