"""Every keyword of torch.utils.data.DataLoader, and what Isocost does with it.

Said once a process for each keyword that a script passes, as a `KeywordNote` warning.
"""

import warnings
from typing import Any, Dict

_USED = {
    "batch_size": "used: global_batch_size is batch_size x ranks x microbatches, unless it is given",
    "shuffle": "used: off takes samples in the order of the shards",
    "num_workers": "used: decoding threads of the node; 0 is one per core",
    "drop_last": "used: the tail of an epoch is dropped, and counted",
    "prefetch_factor": "used: microbatches that wait ready for this rank",
    "generator": "used: its initial seed is the order's seed, unless seed is given",
    "timeout": "used: seconds without a sign of life after which a node or rank is given up",
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
    "sampler": "the order follows from seed and epoch alone; choose shuffle= and seed=",
    "batch_sampler": "the node decides which samples share a microbatch, by their cost; choose global_batch_size= "
                     "and microbatches=",
    "collate_fn": "samples arrive packed; pass collate=, which takes the microbatch",
}

KEYWORDS = frozenset(_USED) | frozenset(_NOT_NEEDED) | frozenset(_REFUSED)
_said = set()


class KeywordNote(UserWarning):
    """What became of a keyword of torch's DataLoader."""


def take(given: Dict[str, Any]) -> Dict[str, Any]:
    """The keywords of `given` that are used, without those left at None. Raises ValueError for a
    refused one, TypeError for one that neither torch nor Isocost knows."""
    used = {}
    for name, value in given.items():
        if name not in KEYWORDS:
            raise TypeError(f"isocost.DataLoader has no keyword '{name}'; help(isocost.DataLoader) lists them")
        if value is None:
            continue
        if name in _REFUSED:
            raise ValueError(f"{name}= is refused: {_REFUSED[name]}")
        if name in _USED:
            used[name] = value
        _say(name)
    return used


def _say(name: str) -> None:
    if name in _said:
        return
    _said.add(name)
    warnings.warn(f"{name}= is {_USED.get(name) or _NOT_NEEDED[name]}", KeywordNote, stacklevel=5)
