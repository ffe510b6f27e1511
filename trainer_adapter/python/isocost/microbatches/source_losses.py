"""Losses by source of a mixture."""

import dataclasses
import math
from typing import Any, Dict, List, Sequence

from isocost.base.tensor_names import IGNORED_LABEL, LABELS, LENGTHS, LOSS_WEIGHTS
from isocost.microbatches.decoder_rows import decoder_rows
from isocost.microbatches.microbatch import Microbatch


@dataclasses.dataclass(frozen=True, eq=False)
class SourceLosses:
    """Sums of losses by source. Those with the same names can be added: `a + b`, `sum(list)`.

    Attributes:
        names: list of str, the sources.
        totals: float64 [2, sources], on the device of the losses: the sums of the losses, and the numbers of label
            tokens. One tensor, so that one all-reduce (a sum) adds those of all ranks.
    """

    names: List[str]
    totals: Any

    @property
    def sums(self) -> Any:
        """The sums of the losses, float64 [sources]: a view of `totals`."""
        return self.totals[0]

    @property
    def counts(self) -> Any:
        """The numbers of label tokens, float64 [sources]: a view of `totals`."""
        return self.totals[1]

    def means(self) -> Dict[str, float]:
        """Returns the mean loss of a label token by source, in the order of `names`; NaN for a source without any.
        Waits for the device."""
        sums, counts = self.totals.tolist()
        return {name: total / count if count else math.nan for name, total, count in zip(self.names, sums, counts)}

    def __add__(self, other: Any) -> "SourceLosses":
        if isinstance(other, int) and other == 0:  # sum() begins with it.
            return self
        if not isinstance(other, SourceLosses):
            return NotImplemented
        if self.names != other.names:
            raise ValueError(f"losses of the sources {', '.join(self.names)} and {', '.join(other.names)}: give both "
                             "calls of losses_by_source the same `sources`, such as loader.sources")
        return SourceLosses(self.names, self.totals + other.totals)

    __radd__ = __add__


def losses_by_source(microbatch: Microbatch, losses: Any, sources: Sequence[str]) -> SourceLosses:
    """Returns the sums of a microbatch's losses and the numbers of its label tokens, by source of a mixture.

    Labels of -100 do not count, nor tokens of weight 0, such as those of repeats and dummies. Other weights have no
    effect. Nothing is summed over ranks, and no gradient flows.

    Args:
        microbatch: an isocost.Microbatch with its labels, of a mixture: `sample_keys` begin with the source.
        losses: float, one for each position, not reduced. The loss of a position is that of the next one's label, as
            models of transformers and isocost.token_loss have it. Its shape is one of:

                [tokens], [1, tokens]       packed rows; the last loss is ignored
                [tokens - 1], [1, ...]      packed rows, without the last position: `labels[1:]`
                [samples, longest]          padded rows (`attention_mask`); losses of padding are ignored
                [samples, longest - 1]      padded rows, without the last position
                [samples, longest]          of a decoder of its own (Whisper): beside `labels`, not shifted

        sources: the names, in the order of the result: loader.sources, which is the same on all ranks and for all
            microbatches. Those of one microbatch would add up other sources in an all-reduce.

    Raises: ValueError for another shape; for a key of a source that `sources` lacks; for a microbatch without labels.

    Example, where ranks are data-parallel:
        >>> losses = torch.nn.functional.cross_entropy(logits[0, :-1].float(), microbatch["labels"][0, 1:],
        ...                                            reduction="none")
        >>> found = isocost.losses_by_source(microbatch, losses, loader.sources)
        >>> torch.distributed.all_reduce(found.totals)
        >>> print(found.means())  # {"captions": 1.9, "documents": 2.4}
    """
    import torch

    if LABELS not in microbatch.packed or LENGTHS not in microbatch.packed:
        raise ValueError("losses_by_source: this microbatch has no labels: call it on the stage that computes the loss")
    names = _names(microbatch, sources)
    losses = losses.detach()
    lengths = microbatch.packed[LENGTHS].to(losses.device).long()
    samples = _sources_of_samples(microbatch, names, len(lengths)).to(losses.device)
    if microbatch.has_decoder:
        labels = microbatch[LABELS].to(losses.device)
        if losses.shape != labels.shape:
            raise _wrong_shape(losses, [list(labels.shape)])
        weights = decoder_rows(microbatch.packed[LOSS_WEIGHTS], microbatch.packed[LENGTHS], labels.shape[1], 0)
        owners = samples.unsqueeze(1).expand(labels.shape)
    else:
        labels = microbatch.packed[LABELS].reshape(-1).to(losses.device)
        weights = microbatch.packed[LOSS_WEIGHTS]
        losses = _of_labels(microbatch, losses, labels.numel())
        owners = torch.repeat_interleave(samples, lengths)
    counted = (labels != IGNORED_LABEL) & (weights.to(losses.device).reshape(labels.shape) != 0) & (owners >= 0)
    totals = torch.zeros(2, len(names), dtype=torch.float64, device=losses.device)
    owners = owners.reshape(-1).clamp(min=0)
    values = torch.where(counted, losses.double(), torch.zeros_like(losses, dtype=torch.float64))
    totals[0].index_add_(0, owners, values.reshape(-1))
    totals[1].index_add_(0, owners, counted.reshape(-1).double())
    return SourceLosses(names, totals)


def _names(microbatch: Microbatch, sources: Sequence[str]) -> List[str]:
    names = list(sources)
    if isinstance(sources, str) or len(set(names)) != len(names):
        raise ValueError(f"losses_by_source: sources must be a list of different names, not {sources!r}")
    for key in microbatch.sample_keys:
        if _source(key) not in names:
            raise ValueError(f"losses_by_source: sample {key!r} is of none of the sources "
                             f"{', '.join(names) or '(none)'}: give loader.sources, which is empty without a mixture")
    return names


def _source(key: str) -> str:
    return key.split("/", 1)[0]


def _sources_of_samples(microbatch: Microbatch, names: List[str], rows: int) -> Any:
    """Returns the number of each sample's source, int64 [rows]; -1 for dummies, which follow the samples."""
    import torch

    numbers = {name: number for number, name in enumerate(names)}
    of_samples = [numbers[_source(key)] for key in microbatch.sample_keys]
    return torch.tensor(of_samples + [-1] * (rows - len(of_samples)))


def _of_labels(microbatch: Microbatch, losses: Any, tokens: int) -> Any:
    """Returns the loss of each label in the packed order, [tokens]. The first one's is 0: nothing predicts it."""
    import torch

    pad = torch.nn.functional.pad
    mask = microbatch.get("attention_mask")
    given = losses
    if mask is not None and mask.dim() == 2 and losses.dim() == 2 and len(losses) == len(mask):
        if losses.shape[1] == mask.shape[1] - 1:
            losses = pad(losses, (0, 1))
        if losses.shape == mask.shape:
            losses = losses[mask.to(losses.device).bool()]
    losses = losses.reshape(-1)
    if given.dim() in (1, 2) and losses.numel() == tokens - 1:
        losses = pad(losses, (0, 1))
    if given.dim() not in (1, 2) or losses.numel() != tokens or (given.dim() == 2 and mask is None and len(given) != 1):
        shapes = [[tokens], [1, tokens], [tokens - 1], [1, tokens - 1]]
        if mask is not None:
            shapes = [list(mask.shape), [mask.shape[0], mask.shape[1] - 1]]
        raise _wrong_shape(given, shapes)
    return pad(losses[:-1], (min(1, tokens), 0))


def _wrong_shape(losses: Any, allowed: List[List[int]]) -> ValueError:
    return ValueError(f"losses_by_source: losses of shape {list(losses.shape)}: they must have one of "
                      f"{' '.join(map(str, allowed))}, one loss for each position, with reduction=\"none\"")
