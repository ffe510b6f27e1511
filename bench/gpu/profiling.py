"""Profiles a module with isocost.profile_model, on a grid that fits the budget."""

import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import sysconfig
import time
import types

# Names that the benchmark uses of the package, by module.
USED = {"base.hardware": ("hardware", "versions"), "profiling.profile_model": ("profile_model", "write"),
        "profiling.descriptions": ("ProfiledModule",), "profiling.profiler": ("backward",),
        "profiling.clock": ("CudaClock", "HostClock", "is_out_of_memory"),
        "profiling.largest_load": ("Trial", "largest_load"), "profiling.device_memory": ("free_bytes",)}
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "trainer_adapter" / "python" / "isocost"
# The profiler's method is C++. These files are all of it; they need headers of pybind11 and tl::expected, no library.
SOURCES = ("bench/gpu/profiling_module.cc", "trainer_adapter/python/extension/profiling.cc",
           "costmodel/profiling_method.cc", "base/counted.cc", "base/statistics.cc", "base/result.cc")
COMPILE_S = 300  # time-out of the compiler
MOST_UNITS = 1 << 17
PROBED_UNITS = 4096
GRID_LOADS = 8  # the first grid's units, in loads of most_units
GRID_RUNS = 5   # of a load that is slow: warm-up and the fewest that are timed
GRID_SHARE = 0.6  # of the budget


def profiler():
    """Returns the package's profiler and where it comes from.

    The package needs a loader node's libraries, its profiler does not: where the package is not built, the checkout's
    profiler is imported without the rest, and its method compiled for it. Exits, naming what is missing, where the
    method does not compile.
    """
    try:
        importlib.import_module("isocost")
        source = "package"
    except ImportError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "isocost"]:
            del sys.modules[name]
        package = types.ModuleType("isocost")
        package.__path__ = [str(PACKAGE)]
        sys.modules["isocost"] = package
        load_method(compiled_method())
        source = "checkout, its method alone compiled"
    used = {name: getattr(importlib.import_module(f"isocost.{module}"), name)
            for module, names in USED.items() for name in names}
    return types.SimpleNamespace(**used), source


def load_method(file):
    """Imports the extension as isocost._isocost."""
    spec = importlib.util.spec_from_file_location("isocost._isocost", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


def compiled_method():
    """Returns the extension of the profiler's method for this interpreter, compiled once below build/gpu."""
    file = ROOT / "build" / "gpu" / f"_isocost{sysconfig.get_config_var('EXT_SUFFIX')}"
    read = [ROOT / source for source in SOURCES]
    for folder in ("base", "costmodel", "costmodel/internal", "trainer_adapter/python/extension"):
        read += (ROOT / folder).glob("*.h")
    if file.exists() and file.stat().st_mtime >= max(source.stat().st_mtime for source in read):
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f"{os.getpid()}.tmp")
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
               *(f"-I{folder}" for folder in (ROOT, sysconfig.get_paths()["include"], *pybind_folders())),
               *(str(ROOT / source) for source in SOURCES), "-o", str(scratch)]
    print("compiling the profiler's method for this Python, once", file=sys.stderr, flush=True)
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMPILE_S)
        os.replace(scratch, file)
    except (OSError, subprocess.SubprocessError) as failure:
        said = (getattr(failure, "stderr", None) or str(failure)).strip().splitlines()
        errors = [line for line in said if "error" in line] or said
        print(f"profile_mllm: {' '.join(command)}\n" + "\n".join(errors[:5]), file=sys.stderr)
        print("profile_mllm: the package isocost is not built for this Python, and its profiler's method does not "
              "compile. That needs a C++20 compiler, Python's headers, pybind11 (torch has it) and tl/expected.hpp "
              "(libexpected-dev, or CPATH): see bench/gpu/README.md", file=sys.stderr)
        sys.exit(2)
    finally:
        scratch.unlink(missing_ok=True)
    return file


def pybind_folders():
    """Returns the folder of pybind11's headers, if it is not one of the compiler's own."""
    for module in ("pybind11", "torch"):
        spec = importlib.util.find_spec(module)
        for folder in spec.submodule_search_locations if spec is not None else ():
            if (pathlib.Path(folder) / "include" / "pybind11").is_dir():
                return [pathlib.Path(folder) / "include"]
    return []


def clock_for(isocost_profile, device):
    return isocost_profile.CudaClock() if device == "cuda" else isocost_profile.HostClock()


def run_once(isocost_profile, clock, forward):
    """Returns the seconds of a forward and a backward pass; the device is idle before and after."""
    start = clock.mark()
    isocost_profile.backward(forward())
    end = clock.mark()
    clock.settle()
    return clock.between(start, end)


def most_units(isocost_profile, clock, prepare, longest, seconds, room):
    """Returns the units of the grid's largest microbatch, so that the first grid takes its share of `seconds`. Loads
    are doubled up to it: a small one may take as long as its launches do, which says nothing of a large one.

    room: returns the bytes that are left."""
    def run(units):
        length = min(longest, units)
        forward = prepare([length] * max(1, units // length))
        run_once(isocost_profile, clock, forward)  # loads kernels
        peak_bytes = clock.peak_bytes(lambda: isocost_profile.backward(forward()))
        return isocost_profile.Trial(run_once(isocost_profile, clock, forward), peak_bytes)

    allowed = GRID_SHARE * seconds / (GRID_LOADS * GRID_RUNS)
    most = isocost_profile.largest_load(run, min(longest, PROBED_UNITS), MOST_UNITS, allowed, room)
    return max(longest // 4, most)


def profile(isocost_profile, clock, name, prepare, lengths, seconds, kind):
    """Returns a model profile of the module, as in docs/model_profile.md.

    lengths: (shortest, longest); kind: device and dtype."""
    import torch

    start = time.monotonic()
    device = torch.device(kind["device"])
    most = most_units(isocost_profile, clock, prepare, lengths[1], seconds, lambda: isocost_profile.free_bytes(device))
    module = isocost_profile.ProfiledModule(prepare, (lengths[0], min(lengths[1], most)), most)
    left = max(1.0, seconds - (time.monotonic() - start))
    dtype = str(kind["dtype"]).partition(".")[2]
    return isocost_profile.profile_model(budget_s=left, dtype=dtype, **{name: module})


def merged(profiles):
    """Merges model profiles of one module each into one."""
    document = dict(next(iter(profiles.values())))
    document["modules"] = {name: profiles.get(name, document)["modules"][name] for name in document["modules"]}
    return document
