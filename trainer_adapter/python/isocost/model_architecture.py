"""The dimensions of a model's modules, from which memory and layouts follow."""

from typing import Any

from isocost.model_skeleton import Skeleton, places
from isocost.profiled_module import Architecture

_FLOP_PER_WEIGHT = 2  # a product and a sum


def architecture(skeleton: Skeleton, module: str) -> Architecture:
    """The module's dimensions, from its configuration. `embedding_parameters` are all parameters outside the matrices
    of the layers: embeddings, output head or projector, norms and biases. The sum is the module's exact number."""
    config = skeleton.module_config(module)
    layers = skeleton.layers(module)
    width = int(getattr(config, "embed_dim", None) or config.hidden_size)
    heads = int(getattr(config, "num_heads", None) or config.num_attention_heads)
    key_value_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    head_width = int(getattr(config, "head_dim", None) or width // heads)
    found = Architecture(
        name=f"{skeleton.name}, {module}", layers=len(layers), width=width, heads=heads, mlp=_mlp(config, width),
        key_value_width=key_value_heads * head_width,
        gated=any("gate_proj" in name for name, _parameter in layers.named_parameters()),
        head_flop_per_unit=_head_flop(skeleton, module))
    outside = skeleton.parameters(module) - found.layers * layer_parameters(found)
    return found._replace(embedding_parameters=outside)


def layer_parameters(its: Architecture) -> int:
    """Of the matrices of one layer, as costmodel/architecture.cc counts them."""
    key_value_width = its.key_value_width or its.width
    return its.width * (2 * its.width + 2 * key_value_width + (3 if its.gated else 2) * its.mlp)


def _mlp(config: Any, width: int) -> int:
    given = getattr(config, "intermediate_size", None)
    return int(given if given else width * config.mlp_ratio)


def _head_flop(skeleton: Skeleton, module: str) -> int:
    """Of the output head for a token, or of the projector for a patch."""
    if module == "llm":
        return _FLOP_PER_WEIGHT * int(skeleton.model.get_output_embeddings().weight.numel())
    tower = places(skeleton.model, module)[0].get()
    own = [tower.merger] if hasattr(tower, "merger") else [place.get() for place in places(skeleton.model, module)[1:]]
    weights = sum(each.numel() for head in own for each in head.parameters() if each.dim() == 2)
    return _FLOP_PER_WEIGHT * int(weights) // _patches_in_a_vector(skeleton)


def _patches_in_a_vector(skeleton: Skeleton) -> int:
    """Whose values the projector takes together."""
    merged = getattr(skeleton.config.vision_config, "spatial_merge_size", None)
    shrunk = getattr(skeleton.config, "downsample_ratio", None)
    side = int(merged) if merged else round(1 / shrunk) if shrunk else 1
    return side * side
