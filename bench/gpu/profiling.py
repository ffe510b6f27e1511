"""Profiles a module with isocost.profile_model, on a grid that fits the budget."""

import importlib
import pathlib
import sys
import time
import types

# What the benchmark uses of the package, by module.
USED = {"profile": ("hardware", "profile_model", "versions", "write"), "profiled_module": ("ProfiledModule",),
        "module_profiler": ("backward",), "profile_clock": ("CudaClock", "HostClock", "is_out_of_memory")}
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "trainer_adapter" / "python" / "isocost"
MOST_UNITS = 65536
PROBED_UNITS = 4096
GRID_LOADS = 8  # the first grid's units, in loads of most_units
GRID_RUNS = 5   # of a load that is slow: warm-up and the fewest that are timed
GRID_SHARE = 0.6  # of the budget


def profiler():
    """Returns the package's profiler and where it comes from. The package needs its compiled part but the profiler does
    not: where the package is not built, only the checkout's profiler is imported."""
    try:
        importlib.import_module("isocost")
        source = "package"
    except ImportError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "isocost"]:
            del sys.modules[name]
        package = types.ModuleType("isocost")
        package.__path__ = [str(PACKAGE)]
        sys.modules["isocost"] = package
        source = "checkout, without the compiled part"
    used = {name: getattr(importlib.import_module(f"isocost.{module}"), name)
            for module, names in USED.items() for name in names}
    return types.SimpleNamespace(**used), source


def clock_for(isocost_profile, device):
    return isocost_profile.CudaClock() if device == "cuda" else isocost_profile.HostClock()


def run_once(isocost_profile, clock, forward):
    """Returns the seconds of a forward and a backward pass; the device is idle before and after."""
    start = clock.mark()
    isocost_profile.backward(forward())
    end = clock.mark()
    clock.settle()
    return clock.between(start, end)


def most_units(isocost_profile, clock, prepare, longest, seconds):
    """Returns the units of the grid's largest microbatch, so that the first grid takes its share of `seconds`."""
    length = min(longest, PROBED_UNITS)
    forward = prepare([length] * max(1, PROBED_UNITS // length))
    run_once(isocost_profile, clock, forward)  # loads kernels
    a_unit = run_once(isocost_profile, clock, forward) / (length * max(1, PROBED_UNITS // length))
    return int(min(MOST_UNITS, max(longest / 4, GRID_SHARE * seconds / (GRID_LOADS * GRID_RUNS * a_unit))))


def profile(isocost_profile, clock, name, prepare, lengths, seconds, dtype):
    """Returns a model profile of the module, as in docs/profile.md. lengths: (shortest, longest)."""
    start = time.monotonic()
    most = most_units(isocost_profile, clock, prepare, lengths[1], seconds)
    module = isocost_profile.ProfiledModule(prepare, (lengths[0], min(lengths[1], most)), most)
    left = max(1.0, seconds - (time.monotonic() - start))
    return isocost_profile.profile_model(budget_s=left, dtype=dtype, **{name: module})


def merged(profiles):
    """Merges model profiles of one module each into one."""
    document = dict(next(iter(profiles.values())))
    document["modules"] = {name: profiles.get(name, document)["modules"][name] for name in document["modules"]}
    return document
