"""Loaders in the shape that pipeline schedules want."""

import itertools
from typing import Any, Iterator, List, Union

from isocost.loader import DataLoader
from isocost.microbatch import Microbatch


def stage_iterators(loader: DataLoader) -> Union[Iterator[Any], List[Iterator[Any]]]:
    """What Megatron-style schedules take as `data_iterator`: this stage's microbatches, one for each
    `next(data_iterator)` of forward_step; where the layout's LLM stages hold several chunks of the
    model, a list of iterators, one for each chunk, each of which sees every microbatch. Every stage
    has one: packed attention needs cu_seqlens everywhere. Ends with the epoch, or, of an endless
    loader, never. A step has as many microbatches as say so: `microbatch.last_of_step` is true of
    the last (for an encoder with ranks of its own another number than for the LLM). Passes are measured by
    `loader.timed(microbatch, part=...)` (docs/layout.md).

    Example:
        >>> loader = isocost.DataLoader("shards/", layout="layout.json", global_batch_size=512, endless=True)
        >>> data_iterator = isocost.stage_iterators(loader)
        >>> def forward_step(data_iterator, model):
        ...     microbatch = next(data_iterator)
        ...     return model(**microbatch.tensors), functools.partial(loss, microbatch)
    """
    chunks = loader.layout.chunks if loader.layout is not None and loader.place.module == "llm" else 1
    iterator: Iterator[Microbatch] = iter(loader)
    return iterator if chunks == 1 else list(itertools.tee(iterator, chunks))
