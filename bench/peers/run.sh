#!/usr/bin/env bash
# Makes the virtual environment of the peers in build/peers, then runs peers.py with the arguments: ./run bench peers.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

. setup/functions.sh

venv=build/peers/venv
# Pillow before 12.2 resizes in the order of the recipes (docs/models/processor_differences.md). What mosaicml-streaming imports is named here:
# it asks for older versions of numpy and transformers, which it does not use to read, so it comes without dependencies.
needed=(torchvision 'torch>=2.7' 'transformers>=5' tokenizers jinja2 'pillow==12.1.*')
peers=(torchcodec av spdl nvidia-dali-cuda130 webdataset 'Brotli zstd xxhash python-snappy boto3 catalogue'
  '--no-deps mosaicml-streaming==0.13.*')

case " $* " in
  *" --help "* | *" -h "*) exec /usr/bin/python3 -B bench/peers/peers.py --help ;;
esac

# Each of them once, unless pip fails for another reason than that there is no wheel.
install_peers() {
  local names complete=1
  [ ! -e "$venv/peers" ] || return 0
  for names in "${peers[@]}"; do
    # Several words are several packages.
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --no-input $names 2>"$venv/pip.log" && continue
    cat "$venv/pip.log" >&2
    if grep -q "No matching distribution" "$venv/pip.log"; then
      say "no wheel of ${names##* } for this Python: left out"
    else
      say "installing ${names##* } failed, pip says why above: left out, and tried again the next time"
      complete=0
    fi
  done
  [ "$complete" = 0 ] || touch "$venv/peers"
}

[ -e "$venv/complete" ] || say "installing the peers in $venv (minutes, some 5 GB)"
status=0
venv_with /usr/bin/python3 "$venv" "${needed[@]}" || status=$?
case $status in
  0) ;;
  77)
    echo "bench: peers skipped: there is no python3-venv, or no package index answers with torch" >&2
    exit 0
    ;;
  *)
    echo "bench: installing the peers into $venv failed; pip says why above" >&2
    exit 1
    ;;
esac
install_peers
python3 examples/demo/demo.py --media-only >&2
PYTHONPATH=build/release/python exec "$venv/bin/python" -B bench/peers/peers.py "$@"
