"""Every keyword of torch.utils.data.DataLoader, and what Isocost does with it."""

import dataclasses
import os
import sys
import warnings
from typing import Any, Dict, Mapping, Set

from isocost.options.given_fields import ELSEWHERE
from isocost.options.node_options import NodeOptions, RecipeOptions

_USED = {
    "batch_size": "used: global_batch_size is batch_size x ranks x microbatches",
    "num_workers": "used: number of decoding threads of the node; 0 is one per core",
    "drop_last": "used: the tail of an epoch is dropped, and counted",
    "prefetch_factor": "used: number of microbatches that wait ready for this rank",
    "generator": "used: its initial seed is the seed of the order, unless seed is given",
    "timeout": "used as heartbeat_timeout: seconds without a heartbeat before a node or rank is considered lost",
    "pin_memory": "used: tensors are copied to pinned memory where there is a CUDA device",
}
_NOT_NEEDED = {
    "worker_init_fn": "not needed: there are no worker processes; transform= runs in threads",
    "multiprocessing_context": "not needed: there are no worker processes",
    "persistent_workers": "not needed: the node's threads live as long as the loader",
    "pin_memory_device": "not needed: device= says where tensors go",
    "in_order": "not needed: microbatches always come in order",
    "snapshot_every_n_steps": "not needed: state_dict() is exact at every step and costs microseconds",
}
_REFUSED = {
    "dataset": "give it as data=, a directory of WebDataset shards or the endpoint of a node; `isocost make-shards` "
               "writes shards from files",
    "sampler": "the order follows from seed and epoch alone; choose shuffle= and seed=",
    "batch_sampler": "the node decides which samples share a microbatch, by their cost; choose global_batch_size= "
                     "and microbatches=",
    "collate_fn": "samples arrive packed; pass collate=, which takes the microbatch",
}
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

KEYWORDS = frozenset(_USED) | frozenset(_NOT_NEEDED) | frozenset(_REFUSED)
# Defaults of torch's DataLoader: a script that gives one of them asks for nothing.
_DEFAULTS = {"num_workers": 0, "timeout": 0, "drop_last": False, "pin_memory": False, "persistent_workers": False,
             "in_order": True, "pin_memory_device": "", "snapshot_every_n_steps": 1}
_noted: Set[str] = set()  # Keywords that this process has warned of: a process has one standard error.


class KeywordNote(UserWarning):
    """Explains how a keyword of torch's DataLoader was handled. The first process of a job warns once per keyword."""


def check(given: Mapping[str, Any]) -> None:
    """Raises ValueError for a keyword that is refused, TypeError for one that is neither torch's nor Isocost's."""
    for name, value in given.items():
        if name not in KEYWORDS:
            raise TypeError(f"isocost.DataLoader has no keyword '{name}'; {_where_it_belongs(name)}")
        if name in _REFUSED and value is not None:
            raise ValueError(f"{name}= is refused: {_REFUSED[name]}")


def take(given: Mapping[str, Any], note: bool) -> Dict[str, Any]:
    """Returns the keywords of `given` that are used, without those that are None or torch's default. Warns where `note`
    is True. `check` must have accepted them."""
    used = {}
    for name, value in given.items():
        if value is None or is_default(name, value):
            continue
        if name in _USED:
            used[name] = value
        if note:
            _warn(name, f"{name}= is {_USED.get(name) or _NOT_NEEDED[name]}")
    return used


def note_shuffling() -> None:
    """Warns that samples are shuffled although the caller, who uses torch's keywords, did not ask for it."""
    _warn("shuffle", "shuffle= is left out: samples are shuffled, which torch's DataLoader would not do; give "
                     "shuffle=True to confirm it, or shuffle=False for the order of the shards")


def is_default(name: str, value: Any) -> bool:
    """Returns whether torch's DataLoader does the same without this keyword."""
    return name in _DEFAULTS and type(value) is type(_DEFAULTS[name]) and value == _DEFAULTS[name]


def _where_it_belongs(name: str) -> str:
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if name in {field.name for field in dataclasses.fields(NodeOptions)}:
        return f"it is a setting of the node: give node=isocost.NodeOptions({name}=...)"
    if name in {field.name for field in dataclasses.fields(RecipeOptions)}:
        return f"it is a setting of the recipe: give recipe=isocost.RecipeOptions({name}=...)"
    return "help(isocost.DataLoader) lists them"


def _warn(name: str, text: str) -> None:
    if name in _noted:
        return
    _noted.add(name)
    warnings.warn(text, KeywordNote, stacklevel=_callers_level())


def _callers_level() -> int:
    """Returns the `stacklevel` at which warnings.warn, called by this function's caller, names the package's caller."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 (documented, but for its name)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE + os.sep):
        level, frame = level + 1, frame.f_back
    return level
