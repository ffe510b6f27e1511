"""Measures a model profile: the cost of the modules over a grid of loads. docs/model_profile.md describes it."""

import json
import os
import sys
from typing import Any, Callable, Dict, Mapping, Optional

from isocost.base.hardware import hardware, versions
from isocost.base.modules import MODULES
from isocost.profiling.descriptions import ProfiledModule, check
from isocost.profiling.profiler import ModuleProfiler
from isocost.rendezvous import rendezvous


def first_of(group: Any) -> Callable[[Any], Any]:
    """Returns a function that gives every process of the group the first one's value; it blocks for all of them."""
    if group is None:
        return lambda value: value
    from torch import distributed

    source = distributed.get_global_rank(group, 0)

    def agree(value: Any) -> Any:
        box = [value]
        distributed.broadcast_object_list(box, src=source, group=group)
        return box[0]

    return agree


def profile_model(budget_s: float = 300.0, output: Optional[str] = None, dtype: str = "", progress: bool = True,
                  group: Any = None, **modules: ProfiledModule) -> Dict[str, Any]:
    """Measures a model profile: forward and backward seconds and peak memory of a model's modules, for the cost model.

    Each module runs on microbatches of equally long sequences over a grid of lengths and counts. Loads with the same
    number of tokens in several lengths tell attention, which grows with the length, from the rest. A load runs until
    the 95 % interval of its median is within 3 %; further lengths are measured where the curve bends. A load that runs
    out of memory is recorded as the boundary. docs/profiling_method.md describes the method. CUDA events measure time
    where the module has initialized CUDA, a monotonic clock otherwise. On the CPU, peak memory is what torch
    allocates, and 0 without torch. If the budget is short, points keep the spread that they have.

    Args:
        budget_s: seconds for all modules together. Every load of the first grid and of the cuts runs at least 5 times
            regardless, twice to warm up.
        output: file to write the model profile to; None: none.
        dtype: name of the type that the model computes in, for people: "bfloat16".
        progress: whether a line is printed on stderr for each load.
        group: a torch.distributed process group whose processes all call this alike, each with its part of the cuts
            for tensor ranks. The first process's measurements and clock decide for all; only it writes the file and
            prints progress. The parts must be equal: if one process ran out of memory alone, the others would wait
            for it.
        **modules: `vision`, `audio`, `llm`: a ProfiledModule each. Modules that are left out cost nothing.

    Gradients are left in the model's parameters: set them to None before training continues. Blocks for the budget.

    Returns: the model profile, as docs/model_profile.md describes it.
    Raises: TypeError and ValueError for invalid arguments; ValueError if the smallest load runs out of
        memory and where the clock stands still; OSError, before anything is measured, where `output` cannot be written.

    Example:
        >>> def prepare(lengths):
        ...     ids = torch.randint(1000, (sum(lengths),), device="cuda")
        ...     return lambda: llm(ids, lengths)
        >>> isocost.profile_model(output="profile.json",
        ...                       llm=isocost.ProfiledModule(prepare, (64, 8192), most_units=16384))
    """
    check("profile_model", ProfiledModule, "prepare, lengths, most_units=...", modules, budget_s)
    first = rendezvous.is_first(group)

    def say(line: str) -> None:
        if progress and first:
            print(line, file=sys.stderr, flush=True)

    # All limits are checked before anything is measured.
    profilers = {name: ModuleProfiler(name, module, budget_s / len(modules), say, agree=first_of(group))
                 for name, module in modules.items()}
    if output is not None:
        check_writable(output)
    measured: Dict[str, Any] = {}
    for name, profiler in profilers.items():
        profiler.run()
        measured[name] = profiler.to_json()
    document = document_of(measured, "isocost.profile_model", dtype)
    if output is not None and first:
        write(document, output)
    return document


def document_of(measured: Mapping[str, Any], source: str, dtype: str) -> Dict[str, Any]:
    """Returns the model profile of measured modules, as docs/model_profile.md describes it. Other modules cost
    nothing."""
    nothing = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}
    return {"version": 1, "unit": "seconds", "source": source, "hardware": hardware(), "dtype": dtype,
            "versions": versions(), "modules": {name: measured.get(name, nothing) for name in MODULES}}


def check_writable(file: str) -> None:
    """Raises OSError where the file cannot be written: before the work, not after it."""
    directory = os.path.dirname(os.path.abspath(file))
    if not os.access(directory, os.W_OK) or os.path.isdir(file):
        raise OSError(f"profile_model: cannot write {file}: no directory that can be written, or a directory itself")


def write(document: Dict[str, Any], file: str) -> None:
    """Writes the model profile in one step, so that no reader sees half of it."""
    scratch = f"{file}.{os.getpid()}.tmp"
    with open(scratch, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=2)
        out.write("\n")
    os.replace(scratch, file)
