#!/usr/bin/env bash
# Checks the flags of `isocost plan --emit megatron` with Megatron-LM's own parser, of megatron-core beside a PyTorch
# wheel in build/megatron/venv: megatron_flags.sh. It takes 6 GB there. Status 77 where there is no Python 3.12 or later,
# which megatron-core 0.17 asks for, or no package index answers.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
. setup/functions.sh

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; }

python=
for name in "${ISOCOST_MEGATRON_BASE:-python3.12}" python3.13 python3.14 python3; do
  if is_new_enough "$name"; then
    python=$name
    break
  fi
done
if [ -z "$python" ]; then
  say "skipped: no Python 3.12 or later, which megatron-core asks for"
  exit 77
fi
venv=build/megatron/venv
venv_with "$python" "$venv" 'megatron-core>=0.17' 'torch>=2.7' numpy packaging || {
  status=$?
  [ "$status" != 77 ] || say "skipped: no package index answers, so there is no Megatron-LM to check with"
  exit "$status"
}
./run build >/dev/null
exec ctest --test-dir build/release -R '^megatron_flags_test$' --no-tests=error --output-on-failure
