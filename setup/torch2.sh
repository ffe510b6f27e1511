#!/usr/bin/env bash
# Every test that meets torch, with a current PyTorch wheel instead of Debian's 1.13: the C++ ones built against the
# wheel, the Python ones run by a virtual environment in build/torch2. Arguments go to ctest.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

jobs=${JOBS:-$(nproc)}
venv=build/torch2/venv
tree=build/torch2/release
wheels=('torch>=2.7' torchvision)               # of one index: they have to fit each other
# Processors of images need pillow, those of videos av; dashscope holds Qwen's vocabulary.
needed=(numpy transformers accelerate tokenizers jinja2 pillow dashscope av)

. setup/functions.sh

mkdir -p build/torch2
if [ "$(cat "$venv/complete" 2>/dev/null)" != "${wheels[*]} ${needed[*]}" ]; then
  /usr/bin/python3 -m venv "$venv"
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
  echo "${wheels[*]} ${needed[*]}" >"$venv/complete"
fi

torch=$("$venv/bin/python" -c 'import torch; print(torch.__path__[0])')
cmake --preset release -B "$tree" -DISOCOST_BUILD_BENCH=OFF -DISOCOST_WERROR=OFF \
  "-DISOCOST_TORCH_ROOT=$torch" "-DPython_EXECUTABLE=$PWD/$venv/bin/python" \
  "-DISOCOST_TEST_PYTHON=$PWD/$venv/bin/python" >build/configure-torch2.log 2>&1 || {
  cat build/configure-torch2.log >&2
  exit 1
}
cmake --build "$tree" --parallel "$jobs" --target torch_tests isocost_python isocost isocost-lab
"$tree/minimal_trainer" --version
ctest --test-dir "$tree" -L torch --no-tests=error --output-on-failure --parallel "$jobs" \
  --output-junit "$PWD/$tree/junit.xml" "$@" || status=$?
python3 setup/test_summary.py "$tree/junit.xml"
exit "${status:-0}"
