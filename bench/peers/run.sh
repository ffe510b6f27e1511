#!/usr/bin/env bash
# Makes the virtual environment of the peers in build/peers, then runs peers.py with the arguments: ./run bench peers.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

. setup/functions.sh

venv=build/peers/venv
# Pillow before 12.2 resizes in the order of the recipes (docs/models.md). What mosaicml-streaming imports is named here:
# it asks for older versions of numpy and transformers, which it does not use to read, so it comes without dependencies.
needed=(torchvision 'torch>=2.7' 'transformers>=5' tokenizers jinja2 'pillow==12.1.*')
peers=(torchcodec av spdl nvidia-dali-cuda130 webdataset 'Brotli zstd xxhash python-snappy boto3 catalogue'
  '--no-deps mosaicml-streaming==0.13.*')

case " $* " in
  *" --help "* | *" -h "*) exec /usr/bin/python3 -B bench/peers/peers.py --help ;;
esac

install_peers() {
  local names
  [ ! -e "$venv/peers" ] || return 0
  for names in "${peers[@]}"; do
    # Several words are several packages.
    # shellcheck disable=SC2086
    "$venv/bin/pip" install --quiet --no-input $names || say "no wheel of ${names##* } for this Python: left out"
  done
  touch "$venv/peers"
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
