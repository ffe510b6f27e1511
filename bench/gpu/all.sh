#!/usr/bin/env bash
# Shows on a machine with one NVIDIA GPU, torch 2.x and transformers what Isocost does there, without network or compiler:
#   bench/gpu/all.sh WHEEL [--budget SECONDS] [--items NAME,...] [--results FOLDER] [--wheels FOLDER] [--cpu]
# WHEEL is a self-contained one, made by `./run package --portable` for that machine's Python.
#   --budget    begins no item that would last longer (default 360); another call goes on with the items that are left
#   --items     some of works, packed, waiting, own_work, linear, memory, profile, documents, in their order
#               (default: all)
#   --results   where each item leaves a JSON (default build/gpu/results); an item that has one there is not repeated
#   --wheels    a folder of wheels that are installed, too, such as flash-linear-attention's
#   --cpu       rehearses with tiny shapes, without a GPU
# $PYTHON (python3) is the interpreter that has torch. Ends with 1 if an item failed, and with 3 if some are left.
set -euo pipefail
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0"; }

budget=360
items=works,packed,waiting,own_work,linear,memory,profile,documents
root=$(dirname "$(readlink -f "$0")")/../..
results=$root/build/gpu/results
wheel=
wheels=
cpu=
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit ;;
    --budget) budget=${2:?--budget needs seconds}; shift ;;
    --items) items=${2:?--items needs names}; shift ;;
    --results) results=${2:?--results needs a folder}; shift ;;
    --wheels) wheels=$(readlink -f "${2:?--wheels needs a folder}"); shift ;;
    --cpu) cpu=1 ;;
    *.whl) wheel=$(readlink -f "$1") ;;
    *) echo "all.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
[ -e "$wheel" ] || { echo "all.sh: it needs a self-contained wheel of Isocost" >&2; usage >&2; exit 2; }
mkdir -p "$results"
results=$(readlink -f "$results")
cd "$root"

device=()
tiny=()
if [ -n "$cpu" ]; then
  device=(--device cpu)
  tiny=(--tiny --seconds 2)
fi
# Of each item: the most seconds that it lasts on a GPU, and its command without the file of its results.
declare -A seconds=([works]=60 [packed]=180 [waiting]=150 [own_work]=60 [linear]=150 [memory]=90 [profile]=240
  [documents]=110)
profile="profile_mllm.py ${device[*]} ${tiny[0]:-}"
declare -A command=(
  [works]="device_loader.py ${device[*]} --only tensors,copies,registrations,no_synchronisation"
  [packed]="packed_rows.py ${device[*]}"
  [waiting]="train_mllm.py ${device[*]} ${tiny[*]} --parts isocost,kept,processor"
  [own_work]="device_loader.py ${device[*]} --only seconds"
  [linear]="train_mllm.py ${device[*]} --family qwen3_5 --samples 400 --seconds 15 ${tiny[*]} --parts LINEAR_WAYS"
  [memory]="train_mllm.py ${device[*]} ${tiny[*]} --parts memory"
  [profile]="$profile --svg build/gpu/profile.svg --budget $([ -n "$cpu" ] && echo 20s || echo 220s)"
  [documents]="$profile --svg build/gpu/documents.svg --budget $([ -n "$cpu" ] && echo 20s || echo 90s)
    --trace documents --profiles $results/profile.json"
)
for item in ${items//,/ }; do
  [ -n "${command[$item]:-}" ] || { echo "all.sh: no item '$item'; there are: ${!command[*]}" >&2; exit 2; }
done

# The interpreter's own packages, which may be those of a virtual environment, stay as they are and are found behind
# what is installed here.
venv=build/gpu/venv
if [ ! -e "$venv/bin/python" ]; then
  "${PYTHON:-python3}" -m venv "$venv"
  "${PYTHON:-python3}" -c 'import site; print(*site.getsitepackages(), site.getusersitepackages(), sep="\n")' \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/of_interpreter.pth"
fi
"$venv/bin/pip" install --quiet --no-index --no-deps --force-reinstall "$wheel"
for extra in "$wheels"/*.whl; do
  [ ! -e "$extra" ] || "$venv/bin/pip" install --quiet --no-index --no-deps "$extra" ||
    echo "all.sh: $(basename "$extra") does not fit this machine, and is left out" >&2
done
python=$PWD/$venv/bin/python
export ISOCOST_PROGRAM=$PWD/$venv/bin/isocost
"$python" - <<'PY'
import importlib.metadata as metadata
import platform
import torch
names = ("isocost", "torch", "transformers", "flash-linear-attention", "causal-conv1d", "flash-attn")
known = {found.metadata["Name"].lower().replace("_", "-"): found.version for found in metadata.distributions()}
print(*(f"{name} {known[name]}" for name in names if name in known), f"Python {platform.python_version()}",
      " ".join(platform.libc_ver()), torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU", sep=", ")
PY

# Packed rows need the kernels of these packages, and a GPU.
linear_ways=padded
[ -n "$cpu" ] || ! "$python" -c 'import causal_conv1d, fla' >/dev/null 2>&1 || linear_ways=isocost,padded
command[linear]=${command[linear]/LINEAR_WAYS/$linear_ways}

begun=$SECONDS
failed=()
left=()
for item in ${items//,/ }; do
  [ ! -e "$results/$item.json" ] || continue
  if [ ${#left[@]} -gt 0 ] || [ $((SECONDS - begun + seconds[$item])) -gt "$budget" ]; then
    left+=("$item")
    continue
  fi
  echo "== $item"
  status=0
  # Twice its time means that it hangs. How long a CPU takes, nobody knows.
  limit=$([ -n "$cpu" ] && echo 1h || echo $((2 * seconds[$item])))
  unfinished=$results/$item.failed.json
  timeout --kill-after=10 "$limit" "$python" -B bench/gpu/${command[$item]} --json "$unfinished" || status=$?
  if [ "$status" = 0 ]; then mv "$unfinished" "$results/$item.json"; else failed+=("$item (status $status)"); fi
done
echo "results in $results, after $((SECONDS - begun)) s"
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
[ ${#left[@]} = 0 ] || { echo "left for another call: ${left[*]}"; exit 3; }
