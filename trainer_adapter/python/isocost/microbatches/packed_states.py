"""Packed rows for layers that carry a state from token to token: what keeps one sample's out of the next."""

import importlib
import importlib.metadata
import re
from typing import Any, Dict, Optional

# The modules whose kernels end a state at the end of a sample, and the packages that have them. transformers takes them
# where it finds them, and raises where it has to keep samples apart without.
_KERNELS = {"fla.ops.gated_delta_rule": "flash-linear-attention", "causal_conv1d": "causal-conv1d"}
# Since then an LLM's cu_seq_lens_q does not reach the encoder of pictures, whose sequences are others.
_TRANSFORMERS = (5, 19)


def obstacle(device: Optional[Any]) -> str:
    """Returns why a model with linear attention cannot take packed rows here, with the remedy; "" if it can.

    device: torch.device of the microbatches; None: the CPU."""
    if device is None or device.type != "cuda":
        return "the kernels that keep packed samples apart need a GPU: give device='cuda'"
    missing = []
    for module, package in _KERNELS.items():
        try:
            importlib.import_module(module)
        except Exception as error:
            if not (isinstance(error, ModuleNotFoundError) and module.partition(".")[0] == error.name):
                # It was built for another torch, say, or lacks Triton; transformers continues without it, in silence.
                return f"{package} is installed and does not load ({error}): install one that fits this torch"
            missing.append(package)
    if missing:
        which = "them" if len(missing) > 1 else "it"
        return f"to keep packed samples apart it needs {' and '.join(missing)}: install {which}"
    try:
        installed = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return ""  # The model is somebody else's.
    if tuple(int(number) for number in re.findall(r"\d+", installed)[:2]) >= _TRANSFORMERS:
        return ""
    needed = ".".join(map(str, _TRANSFORMERS))
    return (f"transformers {installed} hands the ends of packed samples on to the encoder: upgrade it to {needed} or "
            "later")


def ends(lengths: Any, tokens: int) -> Dict[str, Any]:
    """Returns the arguments that say where the states end: `cu_seq_lens_q`, int32 [samples + 1], for the kernels of
    linear attention, and `seq_idx`, int32 [1, tokens], for its convolution. On the device of the lengths, without
    waiting for it.

    lengths: int [samples], whose sum is `tokens`."""
    import torch

    samples = torch.arange(len(lengths), dtype=torch.int32, device=lengths.device)
    return {"cu_seq_lens_q": torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)),
            "seq_idx": samples.repeat_interleave(lengths, output_size=tokens)[None]}
