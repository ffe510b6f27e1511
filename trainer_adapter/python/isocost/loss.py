"""The loss that no plan can change."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isocost.microbatch import Microbatch

IGNORED_LABEL = -100


def token_loss(logits: Any, microbatch: "Microbatch") -> Any:
    """Next-token loss: sum of weight x cross entropy over the microbatch's label tokens, divided by
    the label tokens of the whole global batch.

    Summed over the microbatches and ranks of a step this is the weighted mean over the global batch,
    whatever the plan. So gradients are to be *summed* over microbatches and ranks: with
    DistributedDataParallel, which averages, multiply by the world size.

    Args:
        logits: float [tokens, vocabulary], one row for each position of `tensors["input_ids"]`;
            leading dimensions of size 1 are fine.
        microbatch: with tensors `labels` int64 [tokens] (already shifted; -100 counts for nothing)
            and `loss_weights` float32 [tokens].

    Returns: a scalar of the logits' dtype (float32 where they are half precision).

    Example:
        >>> loss = isocost.token_loss(model(**microbatch.tensors), microbatch)
    """
    return _weighted_sum(logits, microbatch.tensors["labels"], microbatch.tensors["loss_weights"]) / max(
        1, microbatch.global_label_tokens)


def pipeline_loss(logits: Any, target: Any) -> Any:
    """token_loss in the form that schedules of torch.distributed.pipelining want, as `loss_fn`.

    Args:
        logits: as token_loss takes them.
        target: float64 [tokens, 2], as isocost.schedule_steps gives it: labels, and weights divided by the
            label tokens of the whole global batch.
    """
    return _weighted_sum(logits, target[:, 0].long(), target[:, 1])


def _weighted_sum(logits: Any, labels: Any, weights: Any) -> Any:
    import torch

    logits = logits.reshape(-1, logits.shape[-1])
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    losses = torch.nn.functional.cross_entropy(logits, labels.to(logits.device).reshape(-1), reduction="none",
                                               ignore_index=IGNORED_LABEL)
    return (losses * weights.to(device=losses.device, dtype=losses.dtype).reshape(-1)).sum()
