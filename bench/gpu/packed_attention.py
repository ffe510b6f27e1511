"""Attention within the sequences of a packed microbatch (block-diagonal), by the best path that this torch has.

Tensors are packed: queries [units, heads, head width], keys and values [units, key heads, head width], all sequences
one after the other; `key heads` divides `heads`. The result has the queries' shape.

`choose` tries the paths in order and takes the first that runs on the device and agrees with the explicit formula,
forward and backward:
    aten_flash        torch.ops.aten._flash_attention_forward with cu_seqlens, on CUDA, checked against 2.5's and 2.15's
                      signature; first, so that results of different releases compare
    varlen_attn       torch.nn.attention.varlen, the public name for it since 2.10
    sdpa_by_sequence  scaled_dot_product_attention, neighbours of one length together; torch 2.0
    explicit          the formula itself; any torch
"""

import inspect
import itertools
import math
from typing import Any, List, NamedTuple

import torch


class Packing(NamedTuple):
    """The places of sequences in a packed tensor, made before anything is timed.

    lengths: units of each sequence.
    longest, units: the largest of them, and their sum.
    offsets: int32 [sequences + 1] on the device: cu_seqlens.
    positions: int64 [units] on the device: each unit's place in its own sequence, from 0.
    """

    lengths: List[int]
    longest: int
    units: int
    offsets: Any
    positions: Any


def packing_of(lengths, device):
    offsets = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
    positions = torch.cat([torch.arange(length) for length in lengths])
    return Packing(list(lengths), max(lengths), sum(lengths), offsets.to(device), positions.to(device))


def share_heads(queries, keys, values):
    """Keys and values repeated to the number of heads of the queries."""
    times = queries.shape[1] // keys.shape[1]
    return (keys, values) if times == 1 else (keys.repeat_interleave(times, 1), values.repeat_interleave(times, 1))


def varlen_attn(queries, keys, values, packing, causal):
    from torch.nn.attention import varlen

    known = inspect.signature(varlen.varlen_attn).parameters
    # Causality was a flag in the first releases and is a window in later ones.
    options = {"is_causal": causal} if "is_causal" in known else {"window_size": (-1, 0 if causal else -1)}
    if "enable_gqa" in known:
        options["enable_gqa"] = queries.shape[1] != keys.shape[1]
    return varlen.varlen_attn(queries, keys, values, packing.offsets, packing.offsets, packing.longest,
                              packing.longest, **options)


def aten_flash(queries, keys, values, packing, causal):
    attention = torch.ops.aten._flash_attention_forward  # noqa: SLF001 (torch's operator has no public name)
    return attention(queries, keys, values, packing.offsets, packing.offsets, packing.longest, packing.longest, 0.0,
                     causal, False)[0]


def with_shared_heads(path):
    """The path for a torch whose kernel does not take fewer key heads than heads."""
    def attend(queries, keys, values, packing, causal):
        return path(queries, *share_heads(queries, keys, values), packing, causal)
    return attend


def by_sequence(attend_equal):
    """Packed attention from attention over [sequences, heads, length, width]: neighbours of one length run together."""
    def attend(queries, keys, values, packing, causal):
        keys, values = share_heads(queries, keys, values)
        parts, start = [], 0
        for length, group in itertools.groupby(packing.lengths):
            count = len(list(group))
            end = start + count * length
            part = attend_equal(*(t[start:end].unflatten(0, (count, length)).transpose(1, 2)
                                  for t in (queries, keys, values)), causal)
            parts.append(part.transpose(1, 2).flatten(0, 1))
            start = end
        return torch.cat(parts)
    return attend


def _sdpa(queries, keys, values, causal):
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=causal)


def _formula(queries, keys, values, causal):
    scores = queries.float() @ keys.float().transpose(-1, -2) / math.sqrt(queries.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), -math.inf)
    return (scores.softmax(-1) @ values.float()).to(queries.dtype)


sdpa_by_sequence = by_sequence(_sdpa)
explicit = by_sequence(_formula)

PATHS = {"aten_flash": aten_flash, "aten_flash, key heads repeated": with_shared_heads(aten_flash),
         "varlen_attn": varlen_attn, "varlen_attn, key heads repeated": with_shared_heads(varlen_attn),
         "sdpa_by_sequence": sdpa_by_sequence, "explicit": explicit}
CHECKED_LENGTHS = [48, 48, 17, 130, 1]


def _outcome(path, inputs, packing, causal):
    leaves = [tensor.clone().requires_grad_() for tensor in inputs[:3]]
    output = path(*(leaf[:, 0] for leaf in leaves), packing, causal)
    output.backward(inputs[3])
    return [output.detach()] + [leaf.grad for leaf in leaves]


def disagreement(path, device, dtype, heads, key_heads, width, causal):
    """Returns the largest difference from the formula in float32 over the output and the three gradients, each relative
    to its largest value."""
    generator = torch.Generator().manual_seed(1)
    packing = packing_of(CHECKED_LENGTHS, device)
    # Units have gaps between them, as queries, keys and values have in a fused projection.
    inputs = [torch.randn(packing.units, 2, count, width, generator=generator).to(device, dtype)
              for count in (heads, key_heads, key_heads)]
    inputs.append(torch.randn(packing.units, heads, width, generator=generator).to(device, dtype))
    ours = _outcome(path, inputs, packing, causal)
    theirs = _outcome(explicit, [tensor.float() for tensor in inputs], packing, causal)
    return max(float((a.float() - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs))


def choose(device, dtype, heads, key_heads, width, causal):
    """Returns (name, path, {name: reason} of the paths before it, which were not taken)."""
    tolerance = 1e-4 if dtype == torch.float32 else 0.04
    refused = {}
    for name, path in PATHS.items():
        try:
            error = disagreement(path, device, dtype, heads, key_heads, width, causal)
        except Exception as failure:  # whatever a missing kernel raises
            refused[name] = (str(failure).strip().splitlines() or [type(failure).__name__])[0][:200]
            continue
        if error <= tolerance:
            return name, path, refused
        refused[name] = f"differs from the formula by {error:.2g}"
    raise RuntimeError(f"no attention works on {device} in {dtype}: {refused}")
