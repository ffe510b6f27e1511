#!/usr/bin/env bash
# Every test that meets torch, with a current PyTorch wheel instead of Debian's 1.13: the C++ ones built against the
# wheel, the Python ones run by a virtual environment in build/torch2, where moto's server for S3 is, too. Arguments go to ctest. After --newest these are the
# Python ones that meet transformers, accelerate, peft, trl and Lightning, with the newest versions of these, which are printed;
# after --oldest those that prepare samples for Qwen's models, with transformers 4.57; after --deepspeed the one that
# meets DeepSpeed.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

jobs=${JOBS:-$(nproc)}
venv=build/torch2/venv
tree=build/torch2/release
targets=(torch_tests isocost_python isocost isocost-lab s3_commands)
kind=
case "${1:-}" in
  --newest)
    set -- -R '^python_(audio_model|batching|dummy_media|finetune|frameworks|hub_names|huggingface|lightning|model|model_images|model_layout|model_profile|model_video|packed_rows|tokenize|trainer|trainer_fsdp|trainer_loss|trainer_mixtures|trainer_processor|trainer_trl|whisper_model)_test$' "${@:2}"
    kind=newest
    ;;
  --oldest)
    set -- -R '^python_(audio_model|batching|model|model_video)_test$' "${@:2}"
    kind=oldest
    ;;
  --deepspeed)
    set -- -R '^python_trainer_deepspeed_test$' "${@:2}"
    kind=deepspeed
    export DS_ACCELERATOR=cpu TORCH_EXTENSIONS_DIR=$PWD/build/torch2/extensions
    ;;
esac
if [ -n "$kind" ]; then
  venv=build/torch2/$kind
  tree=build/torch2/$kind-release
  targets=(isocost_python isocost isocost-lab)
fi
torch=$(setup/torch2_venv.sh ${kind:+--$kind} /usr/bin/python3 "$venv") || exit
cmake --preset release -B "$tree" -DISOCOST_BUILD_BENCH=OFF -DISOCOST_WERROR=OFF \
  "-DISOCOST_TORCH_ROOT=$torch" "-DPython_EXECUTABLE=$PWD/$venv/bin/python" \
  "-DISOCOST_TEST_PYTHON=$PWD/$venv/bin/python" >build/configure-torch2.log 2>&1 || {
  cat build/configure-torch2.log >&2
  exit 1
}
cmake --build "$tree" --parallel "$jobs" --target "${targets[@]}"
[ -n "$kind" ] || "$tree/minimal_trainer" --version
ctest --test-dir "$tree" -L torch --no-tests=error --output-on-failure --parallel "$jobs" \
  --output-junit "$PWD/$tree/junit.xml" "$@" || status=$?
python3 setup/test_summary.py "$tree/junit.xml"
"$venv/bin/pip" list 2>/dev/null | grep -E '^(accelerate|deepspeed|lightning|peft|tokenizers|torch|torchvision|transformers|trl) '
exit "${status:-0}"
