"""The loss of a global batch, which does not depend on the plan."""

from typing import Any

from isocost.base.counted import counted
from isocost.base.tensor_names import IGNORED_LABEL, LABELS, LENGTHS, LOSS_WEIGHTS
from isocost.microbatches.decoder_rows import decoder_rows
from isocost.microbatches.microbatch import Microbatch


def token_loss(logits: Any, microbatch: Microbatch) -> Any:
    """Returns the next-token loss of a microbatch: the sum of weight x cross entropy over its label tokens, divided by
    the label tokens of the whole global batch.

    Summed over the microbatches and ranks of a step, this is the weighted mean over the global batch, whatever the
    plan. Gradients are therefore to be *summed* over microbatches and ranks. DistributedDataParallel averages them:
    multiply the loss by the world size there. accelerate, Lightning and DeepSpeed divide by their accumulation steps:
    leave these 1.

    Args:
        logits: float [tokens, vocabulary], one row for each position of `input_ids`. Leading dimensions of size 1 may
            be there. With `batching="padded"` [samples, longest, vocabulary]; of a model with a decoder of its own
            (Whisper) one row for each position of `labels`.
        microbatch: an isocost.Microbatch with the tensors `labels`, int64 [tokens], not shifted: the logits of a
            position are those of the next one's label, and -100 marks a position that does not count, such as the first
            one of each sample; and `loss_weights`, float32 [tokens]. Labels of a decoder are where their logits are.

    Returns: a scalar of the logits' dtype; float32 where they are half precision.
    Raises: ValueError if logits has another number of rows than labels.

    Example:
        >>> loss = isocost.token_loss(model(**microbatch), microbatch)
    """
    if microbatch.has_decoder:
        return _decoder_sum(logits, microbatch) / max(1, microbatch.global_label_tokens)
    mask = microbatch.get("attention_mask")
    if mask is not None and logits.shape[:-1] == mask.shape:
        logits = logits[mask.bool()]  # Restores the packed order of the tokens.
    return weighted_sum(logits, microbatch.packed[LABELS], microbatch.packed[LOSS_WEIGHTS]) / max(
        1, microbatch.global_label_tokens)


def pipeline_loss(logits: Any, target: Any) -> Any:
    """Returns token_loss of a microbatch, in the form that schedules of torch.distributed.pipelining take as `loss_fn`.

    Args:
        logits: float [tokens, vocabulary], as for token_loss.
        target: float64 [tokens, 2], as isocost.schedule_steps gives it: labels, and weights divided by the label tokens
            of the whole global batch.
    """
    return weighted_sum(logits, target[:, 0].long(), target[:, 1])


def _decoder_sum(logits: Any, microbatch: Microbatch) -> Any:
    labels = microbatch[LABELS]
    if logits.dim() != 3 or logits.shape[:-1] != labels.shape:
        raise ValueError(f"logits of shape {list(logits.shape)} for labels of shape {list(labels.shape)}: they must be "
                         f"{[*labels.shape, 'vocabulary']}, as the model makes them of the whole microbatch")
    weights = decoder_rows(microbatch.packed[LOSS_WEIGHTS], microbatch.packed[LENGTHS], labels.shape[1], 0)
    return weighted_cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), weights.reshape(-1))


def weighted_sum(logits: Any, labels: Any, weights: Any) -> Any:
    """Returns the weighted sum over labels [tokens] that are not shifted. Raises ValueError as token_loss does."""
    import torch

    if logits.dim() < 2 or logits.shape[:-1].numel() != labels.numel():
        raise ValueError(f"logits of shape {list(logits.shape)} for {counted(labels.numel(), 'label')}: they must be "
                         f"[tokens, vocabulary] with one row for each label, here [{labels.numel()}, vocabulary]")
    logits = logits.reshape(-1, logits.shape[-1])
    # Labels are moved rather than logits, whose rows have a value for each token of the vocabulary.
    labels = torch.nn.functional.pad(labels.reshape(-1)[1:], (0, min(1, labels.numel())), value=IGNORED_LABEL)
    weights = torch.nn.functional.pad(weights.reshape(-1)[1:], (0, min(1, weights.numel())))
    return weighted_cross_entropy(logits, labels, weights)


def weighted_cross_entropy(logits: Any, labels: Any, weights: Any) -> Any:
    """Returns the weighted sum of losses over rows of logits [rows, vocabulary], each with its label."""
    import torch

    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    losses = torch.nn.functional.cross_entropy(logits, labels.to(logits.device), reduction="none",
                                               ignore_index=IGNORED_LABEL)
    return (losses * weights.to(device=losses.device, dtype=losses.dtype)).sum()
