"""Parts of a packed microbatch for context-parallel ranks, which share the tokens of each sequence."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from isocost.base.tensor_names import CU_SEQLENS, IGNORED_LABEL, INPUT_IDS, LABELS, LENGTHS, LOSS_WEIGHTS, POSITION_IDS
from isocost.microbatches.microbatch import Microbatch

SPLITS = ("zigzag", "contiguous")
_OF_TOKENS = {INPUT_IDS: 0, POSITION_IDS: 0, LABELS: IGNORED_LABEL, LOSS_WEIGHTS: 0}
_NEXT_LABELS = "shift_labels"  # the name in transformers' losses


class ContextPart(NamedTuple):
    """One context-parallel rank's part of a microbatch.

    Attributes:
        arguments: the microbatch's tensors with this rank's tokens in place of all (`input_ids`, `position_ids`,
            `labels`, `loss_weights`) and the lengths of the sequences as the rank's attention takes them. With `labels`
            there are `shift_labels`, by which transformers' losses then go: each token's next label. Media are as they
            were.
        indices: int64 [local tokens], on the tensors' device: the place of each of this rank's tokens in the packed
            row; -1 for tokens that fill up. For values that are computed of the whole row, such as embeddings with
            media in them: `part.take(embeddings, dim)`.
        next_labels, next_weights: int64 and float32 [local tokens], label and weight of each token's next one, which
            may be another rank's; None on a pipeline stage without labels.
        global_label_tokens: of the microbatch.
    """

    arguments: Dict[str, Any]
    indices: Any
    next_labels: Any
    next_weights: Any
    global_label_tokens: int

    def take(self, tensor: Any, dim: int = -1, fill: float = 0) -> Any:
        """Returns this rank's values of a tensor that has one value for each token of the packed row along `dim`."""
        return _take(tensor, self.indices, dim, fill)

    def token_loss(self, logits: Any) -> Any:
        """Returns this rank's share of isocost.token_loss: the sum over the context-parallel ranks is the microbatch's
        loss.

        logits: float [..., local tokens, vocabulary].
        """
        import torch

        losses = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), self.next_labels,
                                                   reduction="none", ignore_index=IGNORED_LABEL)
        return (losses * self.next_weights).sum() / max(1, self.global_label_tokens)


def context_part(microbatch: Microbatch, rank: int, size: int, split: str = "zigzag") -> ContextPart:
    """Returns the part of a packed microbatch that a context-parallel rank computes. All ranks of a replica group
    receive the same microbatch (`topology=`), and each takes its own part; parts are equally long.

    Args:
        microbatch: an isocost.Microbatch that is packed.
        rank, size: of the context-parallel group.
        split: "zigzag": each sample, filled up to a multiple of 2 x size tokens, is cut in 2 x size pieces, of which a
            rank gets one from the front and its counterpart from the back, so that all have equal work under a causal
            mask. `cu_seqlens` are those of the rank's own tokens (ring attention). "contiguous": the packed row, filled
            up to a multiple of size tokens, is cut in `size` pieces; `cu_seqlens` are those of the whole row, filled up
            by a sequence of its own (Ulysses, whose ranks meet all tokens in attention).

    Raises: ValueError for another split, a rank outside the group, or a microbatch whose samples are padded.
    """
    if split not in SPLITS:
        raise ValueError(f"split = {split!r}: must be one of {', '.join(map(repr, SPLITS))}")
    if not 0 <= rank < size:
        raise ValueError(f"rank = {rank!r} of {size!r}: must be from 0 to one less than the size")
    tensors = microbatch.tensors
    if microbatch.has_decoder:
        raise ValueError("context-parallel parts are of packed samples, which a model with a decoder of its own does "
                         "not have")
    if "attention_mask" in tensors:
        raise ValueError("context-parallel parts are of packed samples: leave batching='padded' out")
    lengths = microbatch.packed[LENGTHS].tolist()
    indices, own = _zigzag(lengths, rank, size) if split == "zigzag" else _contiguous(lengths, rank, size)
    indices = indices.to(microbatch.packed[CU_SEQLENS].device)
    arguments = {name: _take(tensor, indices, -1, _OF_TOKENS[name]) if name in _OF_TOKENS else tensor
                 for name, tensor in tensors.items()}
    arguments.update(_lengths(tensors, own, indices.device))
    next_labels = next_weights = None
    if LABELS in microbatch.packed:
        next_labels, next_weights = (_take(_moved(microbatch.packed[name], _OF_TOKENS[name]), indices, -1,
                                           _OF_TOKENS[name]) for name in (LABELS, LOSS_WEIGHTS))
    if LABELS in tensors:
        arguments[_NEXT_LABELS] = _take(_moved(tensors[LABELS], IGNORED_LABEL), indices, -1, IGNORED_LABEL)
    return ContextPart(arguments, indices, next_labels, next_weights, microbatch.global_label_tokens)


def _take(tensor: Any, indices: Any, dim: int, fill: float) -> Any:
    taken = tensor.index_select(dim, indices.clamp(min=0))
    shape = [1] * tensor.dim()
    shape[dim] = len(indices)
    return taken.masked_fill((indices < 0).view(shape), fill)


def _moved(values: Any, fill: float) -> Any:
    """Returns the values shifted by one, so that each token has its next token's."""
    import torch

    return torch.nn.functional.pad(values[..., 1:], (0, 1), value=fill)


def _zigzag(lengths: Sequence[int], rank: int, size: int) -> Tuple[Any, List[int]]:
    """Returns the indices of the rank's tokens, and how many it has of each sample."""
    import torch

    pieces, own, first = [], [], 0
    for length in lengths:
        piece = -(-length // (2 * size))
        own.append(2 * piece)
        for start in (rank * piece, (2 * size - 1 - rank) * piece):
            at = torch.arange(start, start + piece)
            pieces.append(torch.where(at < length, at + first, -1))
        first += length
    return torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.int64), own


def _contiguous(lengths: Sequence[int], rank: int, size: int) -> Tuple[Any, List[int]]:
    """Returns the indices of the rank's tokens, and the lengths of the whole row with its filling."""
    import torch

    total = sum(lengths)
    piece = -(-total // size)
    at = torch.arange(rank * piece, (rank + 1) * piece)
    filling = piece * size - total
    return torch.where(at < total, at, -1), [*lengths, filling] if filling else list(lengths)


def _lengths(tensors: Any, lengths: Sequence[int], device: Any) -> Dict[str, Any]:
    """Returns the arguments that say how long the sequences are, by the recipe's names or by those of a model of
    transformers, of which a part runs only the language model."""
    import torch

    sums = torch.tensor([0, *lengths]).cumsum(0).int().to(device)
    longest = max(lengths, default=0)
    if CU_SEQLENS in tensors:
        return {CU_SEQLENS: sums, LENGTHS: sums.diff()}
    return {"cu_seq_lens_q": sums, "cu_seq_lens_k": sums, "max_length_q": longest, "max_length_k": longest}
