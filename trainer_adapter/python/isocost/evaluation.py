"""The mean loss over a data set, whatever the number of ranks."""

from typing import Any, Callable, NamedTuple, Tuple

from isocost.loader import DataLoader
from isocost.microbatches.microbatch import Microbatch

# Returns the sum of a microbatch's weighted losses, and the sum of their weights.
Loss = Callable[[Microbatch], Tuple[Any, Any]]


class Evaluation(NamedTuple):
    """The result of isocost.evaluate.

    Attributes:
        loss: float, the weighted mean over all ranks.
        samples: int, number of samples that it is of, over all ranks.
    """

    loss: float
    samples: int


def check_same_samples(loader: DataLoader, where: str) -> None:
    """Raises ValueError for a loader of which two evaluations would see other samples; its text begins with `where`.
    Blocks until the node has answered."""
    if not loader.has_length or loader.has_proportions:
        raise ValueError(f"{where}: two evaluations of a mixture of data sets with proportions would see other "
                         "samples: make a loader of each data set, or leave all proportions out")


def evaluate(loader: DataLoader, loss: Loss) -> Evaluation:
    """Returns the mean loss over one epoch of `loader`, equal on all ranks and for any number of them.

    Each sample counts once: one that is repeated to keep a rank busy has no weight. Gradients are not recorded;
    `model.eval()` before and `model.train()` after it are the caller's. All ranks call it, and each has as many
    microbatches as the others, so that a model whose parameters are sharded can be evaluated.

    Args:
        loader: an isocost.DataLoader of the data to evaluate on, not the one of training. Each call
            evaluates its next epoch.
        loss: called with each microbatch. Returns the sum of its weighted losses and the
            sum of their weights, numbers or scalar tensors. A model's own loss, as isocost.token_loss, is divided by
            the global batch's label tokens: multiply by them.

    Raises: ValueError for a loader with a layout or `endless`, a mixture with proportions, a loader whose epochs have
        all been delivered, and data without any weight; TypeError if `collate` makes something else of microbatches;
        RuntimeError if there are several ranks and torch.distributed is not initialised.

    Example:
        >>> held_out = isocost.DataLoader("data/eval", model=DIR, global_batch_size=64, shuffle=False)
        >>> def loss(microbatch):
        ...     return model(**microbatch).loss * microbatch.global_label_tokens, microbatch.label_tokens
        >>> isocost.evaluate(held_out, loss).loss
    """
    if loader.layout is not None:
        raise ValueError(f"evaluate: the stages of layout {loader.layout.file} have parts of the model: make a loader "
                         "without layout=")
    if loader.endless:
        raise ValueError("evaluate: an endless loader has no end: make one without endless=True")
    check_same_samples(loader, "evaluate")
    import torch

    sums = torch.zeros(3, dtype=torch.float64)  # losses, weights, samples
    with torch.no_grad():
        for microbatch in loader:
            if not isinstance(microbatch, Microbatch):
                raise TypeError(f"evaluate: collate= made a {type(microbatch).__name__} of a microbatch: leave it out")
            losses, weights = loss(microbatch)
            samples = sum(weight != 0 for weight in microbatch.sample_weights)
            # They are added where the losses are, so that nothing waits for the device.
            device = getattr(losses, "device", sums.device)
            sums = sums.to(device) + torch.stack([torch.as_tensor(each, dtype=torch.float64, device=device)
                                                  for each in (losses, weights, samples)])
            loader.note_trained(microbatch)
    losses, weights, samples = loader.sum_over_ranks(sums).tolist()
    if weights == 0:
        raise ValueError("evaluate: no sample with weight was delivered: the node has no epoch left (epochs=), or no "
                         "label counts")
    return Evaluation(losses / weights, int(samples))
