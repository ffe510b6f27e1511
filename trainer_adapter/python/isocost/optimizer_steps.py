"""The microbatches of a step at once, for loops and frameworks whose batch is an optimizer step."""

from typing import Any, Dict, Iterator, List, Mapping, Optional

from isocost.loader import DataLoader
from isocost.microbatches.microbatch import Microbatch


class Steps:
    """The result of isocost.steps. It holds the loader and no state of its own."""

    def __init__(self, loader: DataLoader):
        self.loader = loader

    def __iter__(self) -> Iterator[List[Any]]:
        return self.loader.begin_steps()

    def __len__(self) -> int:
        return self.loader.steps_per_epoch

    def set_epoch(self, epoch: int) -> None:
        """See DataLoader.set_epoch."""
        self.loader.set_epoch(epoch)

    def state_dict(self, after: Optional[Microbatch] = None) -> Dict[str, Any]:
        """See DataLoader.state_dict; take it after `optimizer.step()`. `after` is the last microbatch of the step."""
        return self.loader.state_dict(after)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See DataLoader.load_state_dict."""
        self.loader.load_state_dict(state)


def steps(loader: DataLoader) -> Steps:
    """Returns an iterable over the loader's optimizer steps. An iteration is an epoch, as the loader's own, and gives
    for each step the list of this rank's microbatches, or of what `collate` made of them.

    A step is acknowledged as a whole, when the next one is asked for and never earlier: where a rank ends within one,
    the rank that takes its place receives all of it. Memory holds this rank's share of one step, and `prefetch`
    microbatches of the next.

    Args:
        loader: an isocost.DataLoader. Iterate over it or over its steps, not both at once. Its `timed` and `report`
            measure each of a step's microbatches; `attach`, which knows one microbatch at a time, is refused.

    Returns: an object with `len` (DataLoader.steps_per_epoch), `set_epoch`, `state_dict` and `load_state_dict`.

    Example:
        >>> for step in isocost.steps(loader):
        ...     for microbatch in step:
        ...         with loader.timed(microbatch):
        ...             model(**microbatch).loss.backward()
        ...     optimizer.step()
        ...     optimizer.zero_grad()
    """
    if not isinstance(loader, DataLoader):
        raise TypeError(f"steps: {type(loader).__name__} is no isocost.DataLoader")
    return Steps(loader)
