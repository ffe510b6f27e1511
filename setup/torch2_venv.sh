#!/usr/bin/env bash
# Makes a virtual environment with a current PyTorch wheel, once, and prints the folder `torch` of the wheel:
# torch2_venv.sh [--newest | --oldest | --deepspeed] [PYTHON VENV], by default of Debian's Python in build/torch2/venv.
# The packages that train models have the versions that the documentation names, or after --newest the newest ones.
# After --oldest there is transformers 4.57 alone. After --deepspeed there is DeepSpeed, too, which the other
# environments are without, since transformers loads it wherever it is. Status 77 where no package index answers.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

trainers=('transformers==5.24.*' 'accelerate==1.15.*' 'peft==0.21.*' 'trl==1.16.*' 'lightning==2.6.*')
deepspeed=
case "${1:-}" in
  --newest)
    shift
    trainers=(transformers accelerate peft trl lightning)
    ;;
  --oldest)
    shift
    trainers=('transformers==4.57.*')
    ;;
  --deepspeed)
    shift
    deepspeed='deepspeed==0.19.*'
    ;;
esac
python=${1:-/usr/bin/python3}
venv=${2:-build/torch2/venv}
# These versions need CPython 3.11: before it, the newest that there are for it.
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && [[ ${trainers[0]} = *==5.* ]]; then
  trainers=(transformers accelerate peft trl lightning)
fi
wheels=('torch>=2.7' torchvision)               # of one index: they have to fit each other
# Processors of images need pillow, those of videos av; dashscope holds Qwen's vocabulary; moto answers as S3.
needed=(numpy "${trainers[@]}" tokenizers jinja2 pillow dashscope av 'moto[server]')

. setup/functions.sh

mkdir -p "$(dirname "$venv")"
if [ "$(cat "$venv/complete" 2>/dev/null)" != "${wheels[*]} ${needed[*]}$deepspeed" ]; then
  "$python" -m venv "$venv"
  if ! index_answers "$venv" torch; then
    say "skipped: no package index answers, so there is no torch 2.x to test with"
    exit 77
  fi
  # An index of wheels without CUDA, where somebody names one, is a tenth of the download.
  torch_from=()
  if [ -n "${TORCH_INDEX_URL:-}" ]; then
    torch_from=(--index-url "$TORCH_INDEX_URL")
  fi
  say "installing torch, torchvision, ${needed[*]} in $venv"
  "$venv/bin/pip" install --quiet --no-input "${torch_from[@]}" "${wheels[@]}"
  "$venv/bin/pip" install --quiet --no-input "${needed[@]}"
  # It has no wheel, and its set-up asks the torch beside it what to compile: nothing here.
  [ -z "$deepspeed" ] || {
    "$venv/bin/pip" install --quiet --no-input setuptools wheel
    DS_BUILD_OPS=0 "$venv/bin/pip" install --quiet --no-input --no-build-isolation "$deepspeed"
  }
  echo "${wheels[*]} ${needed[*]}$deepspeed" >"$venv/complete"
fi

"$venv/bin/python" -c 'import torch; print(torch.__path__[0])'
