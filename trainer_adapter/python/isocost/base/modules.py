"""The modules of a model that the cost model distinguishes, and the tensors that they return."""

from typing import Any, List

MODULES = ("vision", "audio", "llm")


def tensors_of(outputs: Any) -> List[Any]:
    """Returns the tensors in a module's outputs: a tensor, or a nested sequence or dict of such."""
    import torch

    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, (list, tuple)):
        return [tensor for output in outputs for tensor in tensors_of(output)]
    return []
