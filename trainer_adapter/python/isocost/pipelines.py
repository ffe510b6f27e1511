"""Loaders in the shape that pipeline schedules take."""

import itertools
from typing import Any, Iterator, List, Union

from isocost.loader import DataLoader
from isocost.microbatches.microbatch import Microbatch


def stage_iterators(loader: DataLoader) -> Union[Iterator[Any], List[Iterator[Any]]]:
    """Returns what Megatron-style schedules take as `data_iterator`: an iterator over this stage's microbatches, one
    for each `next(data_iterator)` of forward_step. Where the layout's LLM stages hold several chunks of the model,
    returns a list of iterators, one for each chunk, each of which sees every microbatch.

    Every stage has an iterator, since packed attention needs cu_seqlens everywhere. It ends with the epoch; that of an
    endless loader never does. `microbatch.last_of_step` is True for the last microbatch of a step; an encoder with
    ranks of its own has another number of microbatches in a step than the LLM. Measure passes by
    `loader.timed(microbatch, part=...)` (docs/layout.md).

    Example:
        >>> loader = isocost.DataLoader("data/shards", layout="layout.json", global_batch_size=512, endless=True)
        >>> data_iterator = isocost.stage_iterators(loader)
        >>> def forward_step(data_iterator, model):
        ...     microbatch = next(data_iterator)
        ...     return model(**microbatch), functools.partial(loss, microbatch)
    """
    iterator: Iterator[Microbatch] = iter(loader)
    return iterator if loader.chunks == 1 else list(itertools.tee(iterator, loader.chunks))
