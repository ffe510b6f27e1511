"""Rows of the decoder of a model that reads its media through an encoder, such as Whisper."""

from typing import Any


def decoder_rows(values: Any, lengths: Any, width: int, filling: float) -> Any:
    """Returns values of the tokens that a decoder writes, a row for each sample: [samples, width]. A decoder reads all
    of a sample's tokens but the last, and writes all but the first, so a row begins with the second.

    Args:
        values: [tokens], of packed samples.
        lengths: int32 [samples], tokens of each, on the same device.
        width: at least the greatest length, less 1.
        filling: after a row's own values.
    """
    import torch

    at = torch.arange(width, device=values.device)
    first = (lengths.cumsum(0) - lengths + 1)[:, None]
    rows = values[(first + at).clamp(max=max(0, len(values) - 1))]
    return rows.masked_fill(at >= (lengths - 1)[:, None], filling)
