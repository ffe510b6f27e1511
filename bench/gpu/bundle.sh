#!/usr/bin/env bash
# Takes Isocost to a CUDA machine that has torch and a compiler, and neither Debian 12 nor Isocost's libraries:
#   bench/gpu/bundle.sh pack FILE     here, after ./run build: the programs, the libraries that they load (but for those of
#                                     the C and C++ runtimes), and the headers that the extension module needs
#   bench/gpu/bundle.sh unpack FILE   there, in a checkout of the same commit: puts them in build/release, and compiles
#                                     what depends on Python and torch: the extension module, and torch_loader
# The machine needs glibc 2.36 and libstdc++ 12 or newer. $PYTHON (python3) is the interpreter that has torch.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

build=build/release
programs=(isocost isocost-lab bench/nodes/handover_node)
core=libisocost_core.so
runtime='/(ld-linux[^/]*|lib(anl|c|dl|gcc_s|m|mvec|nsl|pthread|resolv|rt|stdc\+\+|util))\.so'

# libraries_of FILES: the paths of what they load, without the runtimes.
libraries_of() {
  ldd "$@" | grep -o '=> /[^ ]*' | cut -c4- | grep -vE "$runtime" | sort -u
}

pack() { # FILE
  local out name
  out=$(readlink -f "$(dirname "$1")")/$(basename "$1")
  tree=$(mktemp -d) # for the trap, not local
  trap 'rm -rf "$tree"' EXIT
  mkdir -p "$tree/lib" "$tree/include"
  # Everything of the extension module but what pybind11 compiles.
  local archives
  mapfile -t archives < <(link_line | grep '\.a$')
  # shellcheck disable=SC2046
  c++ -shared -o "$tree/lib/$core" -Wl,--whole-archive "${archives[@]/#/$build/}" -Wl,--no-whole-archive \
    $(link_line | grep -v '\.a$')
  for name in "${programs[@]}"; do
    install -D "$build/$name" "$tree/$name"
  done
  libraries_of "$tree/lib/$core" "${programs[@]/#/$tree/}" | xargs -I{} cp -L {} "$tree/lib/"
  strip --strip-unneeded "$tree"/lib/*.so* "${programs[@]/#/$tree/}"
  for name in "$tree"/lib/*.so*; do patchelf --set-rpath '$ORIGIN' "$name"; done
  for name in "${programs[@]}"; do
    patchelf --set-rpath "\$ORIGIN/$(realpath --relative-to "$(dirname "$tree/$name")" "$tree/lib")" "$tree/$name"
  done
  cp -r /usr/include/tl /usr/include/fmt /usr/include/dlpack /usr/include/nlohmann "$tree/include/"
  tar -C "$tree" -c . | xz -T0 -6 >"$out"
  ls -lh "$out" >&2
}

# link_line: the libraries of the extension module, as the build links them, one a line.
link_line() {
  ninja -C "$build" -t commands "$(cd "$build" && echo python/isocost/_isocost*.so)" | tail -1 | tr ' ' '\n' |
    grep -E '^([^ ]+\.a|/[^ ]+\.so[.0-9]*|-l[^ ]+)$' | awk '!seen[$0]++'
}

unpack() { # FILE
  local python=${PYTHON:-python3} suffix flags torch source objects=build/gpu/objects package=$build/python/isocost
  mkdir -p "$build" "$package" "$objects"
  tar -C "$build" -xJf "$1"
  ln -sf "$PWD"/trainer_adapter/python/isocost/* "$package/"
  suffix=$("$python" -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')
  torch=$("$python" -c 'import torch; print(torch.__path__[0])')
  flags=(-std=c++20 -O2 -fPIC -fvisibility=hidden "-DISOCOST_VERSION=\"$(version)\"" -I. -isystem "$build/include"
    -isystem "$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')"
    -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include")
  for source in trainer_adapter/python/extension/*.cc trainer_adapter/torch/{device_copies,loader}.cc bench/gpu/torch_loader.cc; do
    printf '%s\0' "$source"
  done | xargs -0 -P "$(nproc)" -I{} sh -c 'o=$0/$(echo "$1" | tr / _).o; shift; c++ "$@" -c {} -o "$o"' "$objects" {} "${flags[@]}"
  c++ -shared -o "$package/_isocost$suffix" "$objects"/trainer_adapter_python_extension_*.o -L"$build/lib" -lisocost_core \
    -Wl,-rpath,"$PWD/$build/lib"
  c++ -o "$build/torch_loader" "$objects"/{trainer_adapter_torch,bench_gpu}_*.o -L"$build/lib" -lisocost_core \
    -L"$torch/lib" -Wl,--no-as-needed -ltorch -ltorch_cpu -lc10 -Wl,-rpath,"$PWD/$build/lib:$torch/lib"
  PYTHONPATH=$build/python "$python" -c 'import isocost; print("isocost", isocost.__version__)'
}

version() {
  sed -n 's/^project(isocost VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt
}

case "${1:-}" in
  pack | unpack) "$1" "${2:?FILE}" ;;
  *)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
