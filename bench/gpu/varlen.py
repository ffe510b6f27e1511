"""An attention of variable lengths for transformers' models, by what torch itself has: no other package is needed.

Models take it for one of the flash attention kind: they build no mask, encoders hand over where their sequences lie,
and the samples of a packed row are told apart by their position ids, as transformers' own flash attention does.
"""

import functools
import itertools
import math

import packed_attention
import torch

NAME = "flash_varlen"


def register():
    """Makes NAME known to transformers: the first path of packed_attention that is right for the tensors at hand."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import flash_attention_mask

    def attend(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
        """query: [rows, heads, units, width], key and value with key heads. Returns [rows, units, heads, width]."""
        if attention_mask is not None or dropout:
            raise ValueError(f"{NAME} takes packed sequences: no attention_mask, no dropout")
        if scaling is not None and not math.isclose(scaling, query.shape[-1] ** -0.5):
            raise ValueError(f"{NAME} does not scale by {scaling}")
        causal = kwargs.get("is_causal")
        causal = module.is_causal if causal is None else causal
        _, path, _ = chosen(query.device.type, query.dtype, query.shape[1], key.shape[1], query.shape[3], causal)
        flat = [tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value)]
        output = path(*flat, packing_of(query, kwargs), causal)
        return output.unflatten(0, (query.shape[0], query.shape[2])), None

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, flash_attention_mask)
    accept_name()


@functools.lru_cache(maxsize=None)
def chosen(device, dtype, heads, key_heads, width, causal):
    with torch.enable_grad():
        return packed_attention.choose(device, dtype, heads, key_heads, width, causal)


def path_name(device, dtype, heads, key_heads, width, causal):
    return chosen(device, dtype, heads, key_heads, width, causal)[0]


def accept_name():
    """transformers looks for an installed package behind every name with "flash" in it; not behind this one."""
    from transformers import modeling_utils

    find = modeling_utils.lazy_import_flash_attention
    modeling_utils.lazy_import_flash_attention = lambda name, *rest, **more: (
        None if name == NAME else find(name, *rest, **more))


def packing_of(query, kwargs):
    """The sequences of a call: those that an encoder names, those of a packed row's position ids, or a row each."""
    rows, _, units, _ = query.shape
    offsets, longest = kwargs.get("cu_seq_lens_q"), kwargs.get("max_length_q")
    positions = kwargs.get("position_ids")
    # Linear attention's offsets come without the longest sequence.
    if (offsets is None or longest is None) and rows == 1 and positions is not None:
        return packing_of_positions(positions)
    if offsets is None:
        offsets = torch.arange(rows + 1, dtype=torch.int32, device=query.device) * units
        longest = units
    return packing(offsets, int(longest), rows * units)


# A microbatch's layers have the same tensor of position ids, whose values a GPU has to be waited for.
@functools.lru_cache(maxsize=1)
def packing_of_positions(positions):
    starts = (positions.flatten() == 0).nonzero().flatten().tolist()
    offsets = torch.tensor([*starts, positions.numel()], dtype=torch.int32)
    return packing(offsets.to(positions.device), int(offsets.diff().max()), positions.numel())


def packing(offsets, longest, units):
    lengths = []
    if offsets.device.type == "cpu":  # The paths for a GPU do not read them, and to read them there would wait for it.
        lengths = [end - begin for begin, end in itertools.pairwise(offsets.tolist()) if end > begin]
    return packed_attention.Packing(lengths, longest, units, offsets, None)
