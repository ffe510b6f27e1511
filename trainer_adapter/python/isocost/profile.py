"""Measures a model's modules over a grid of loads, for the cost model: see docs/profile.md."""

import json
import os
import platform
import sys
from typing import Any, Callable, Dict, Optional

from isocost.module_profiler import ModuleProfiler
from isocost.profiled_module import MODULES, ProfiledModule, check


def first_of(group: Any) -> Callable[[Any], Any]:
    """Gives every process of the group the value of its first one."""
    if group is None:
        return lambda value: value
    from torch import distributed

    source = distributed.get_global_rank(group, 0)

    def agree(value: Any) -> Any:
        box = [value]
        distributed.broadcast_object_list(box, src=source, group=group)
        return box[0]

    return agree


def is_first_of(group: Any) -> bool:
    if group is None:
        return True
    from torch import distributed

    return bool(distributed.get_rank(group) == 0)


def hardware() -> str:
    """What this process computes on, by name: a GPU where CUDA is in use by now."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return str(torch.cuda.get_device_name())
    return cpu_name() or platform.machine()


def cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return ""


def versions() -> Dict[str, str]:
    found = {"python": platform.python_version()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)
        if torch.cuda.is_initialized():
            found["cuda"] = str(torch.version.cuda)
    return found


def profile_model(budget_s: float = 300.0, file: Optional[str] = None, dtype: str = "", progress: bool = True,
                  group: Any = None, **modules: ProfiledModule) -> Dict[str, Any]:
    """Measures forward and backward seconds and peak memory of a model's modules, for the cost model.

    Each module runs on microbatches of equally long sequences over a grid of lengths and counts, so
    that attention (which grows with the length at the same number of tokens) and the rest are told
    apart. A load is repeated until the 95 % interval of its median is within 3 %; further lengths
    are measured where the curve bends. What runs out of memory is recorded as the boundary. CUDA
    events are used where the module has initialized CUDA, a monotonic clock otherwise (peak_bytes
    is then what torch allocates on the CPU; 0 without torch). Where the budget is short, points are
    kept with the spread that they have.

    Args:
        budget_s: seconds for all modules together; every load of the first grid is run at least 5 times regardless,
            twice to warm up.
        file: where the profile is written; None: nowhere.
        dtype: name of the type that the model computes in, for people: "bfloat16".
        progress: a line on stderr for each point.
        group: a torch.distributed process group whose processes all call this alike, each with its part of the cuts
            for tensor ranks; its first one's clock decides for all, writes and tells of progress. The parts must be
            equal: where one alone ran out of memory, the others would wait for it.
        **modules: `vision`, `audio`, `llm`: a ProfiledModule each. Those left out cost nothing.

    Gradients are left in the model's parameters: set them to None before training goes on.

    Returns: the profile, as docs/profile.md describes it.
    Raises: ValueError for arguments that cannot be, and where the smallest load runs out of memory; OSError, before
        anything is measured, where `file` cannot be written.

    Example:
        >>> def prepare(lengths):
        ...     ids = torch.randint(1000, (sum(lengths),), device="cuda")
        ...     return lambda: llm(ids, lengths)
        >>> isocost.profile_model(file="profile.json",
        ...                       llm=isocost.ProfiledModule(prepare, (64, 8192), most_units=16384))
    """
    check(modules, budget_s)
    if file is not None:
        check_writable(file)
    is_first = is_first_of(group)
    say = (lambda line: print(line, file=sys.stderr, flush=True)) if progress and is_first else (lambda line: None)
    nothing = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}
    measured: Dict[str, Any] = {name: nothing for name in MODULES}
    for name, module in modules.items():
        profiler = ModuleProfiler(name, module, None, say, first_of(group))
        profiler.run(budget_s / len(modules))
        measured[name] = profiler.to_json()
    document = {"version": 1, "unit": "seconds", "source": "isocost.profile_model", "hardware": hardware(),
                "dtype": dtype, "versions": versions(), "modules": measured}
    if file is not None and is_first:
        write(document, file)
    return document


def check_writable(file: str) -> None:
    """Before the work, not after it."""
    directory = os.path.dirname(os.path.abspath(file))
    if not os.access(directory, os.W_OK) or os.path.isdir(file):
        raise OSError(f"profile_model: cannot write {file}: no directory that can be written, or a directory itself")


def write(document: Dict[str, Any], file: str) -> None:
    """All or nothing, so that a profile is never half of one."""
    scratch = f"{file}.{os.getpid()}.tmp"
    with open(scratch, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=2)
        out.write("\n")
    os.replace(scratch, file)
