#!/usr/bin/env bash
# Shows on a machine with one NVIDIA GPU, torch 2.x and transformers what Isocost does there, without network or compiler:
#   bench/gpu/all.sh WHEEL [--budget SECONDS] [--items NAME,...] [--results FOLDER] [--wheels FOLDER] [--cpu]
# --help says more. $PYTHON (python3) is the interpreter that has torch.
set -euo pipefail
exec "${PYTHON:-python3}" -B "$(dirname "$(readlink -f "$0")")/run_items.py" "$@"
