"""The dimensions of a model's modules, from which memory and layouts follow."""

from typing import Any

from isocost.profiling.descriptions import Architecture
from isocost.profiling.skeleton import MERGERS, Skeleton, module_attributes

_FLOP_PER_WEIGHT = 2  # a product and a sum
_POSITIONS_IN_A_VECTOR = 2  # merged by Qwen2-Audio's encoder, which averages pairs; Whisper's has no projector


def architecture(skeleton: Skeleton, module: str) -> Architecture:
    """Returns the module's dimensions, from its configuration. `embedding_parameters` are all parameters outside the
    matrices of the layers: embeddings, output head or projector, norms and biases, and a decoder's attention to an
    encoder beside its own attention. The sum is the module's exact number of parameters.

    Layers with experts or linear attention have other matrices than attention and one MLP. Their `mlp` is the width at
    which a layer has as many parameters as these in the mean: memory is divided among layers by it."""
    config = skeleton.module_config(module)
    layers = skeleton.layers(module)
    side = "decoder" if module == "llm" else "encoder"  # for models whose configuration has both
    width = int(getattr(config, "embed_dim", None) or config.hidden_size)
    heads = int(_first(config, "num_heads", f"{side}_attention_heads", "num_attention_heads"))
    # Heads share no keys and values if one number serves both sides.
    shared = None if hasattr(config, f"{side}_attention_heads") else getattr(config, "num_key_value_heads", None)
    key_value_heads = int(shared or heads)
    head_width = int(getattr(config, "head_dim", None) or width // heads)
    found = Architecture(
        name=f"{skeleton.name}, {module}", layers=len(layers), width=width, heads=heads, mlp=_mlp(config, side, width),
        key_value_width=key_value_heads * head_width,
        gated=any("gate_proj" in name or "gate_up_proj" in name for name, _parameter in layers.named_parameters()),
        head_flop_per_unit=_head_flop(skeleton, module), experts=_experts(config))
    if _has_other_matrices(config):
        found = found._replace(mlp=_width_that_holds(layers, found))
    outside = skeleton.parameters(module) - found.layers * layer_parameters(found)
    return found._replace(embedding_parameters=outside)


def _has_other_matrices(config: Any) -> bool:
    types = getattr(config, "layer_types", None) or ()
    return bool(_experts(config)) or "linear_attention" in types


def _experts(config: Any) -> int:
    return int(_first(config, "num_local_experts", "num_experts") or 0)


def _width_that_holds(layers: Any, its: Architecture) -> int:
    mean: int = sum(each.numel() for each in layers.parameters()) // len(layers)
    beside = layer_parameters(its._replace(mlp=0))
    return max(1, (mean - beside) // (layer_parameters(its._replace(mlp=1)) - beside))


def layer_parameters(its: Architecture) -> int:
    """Returns the number of parameters in the matrices of one layer, counted as in costmodel/architecture.cc."""
    key_value_width = its.key_value_width or its.width
    return its.width * (2 * its.width + 2 * key_value_width + (3 if its.gated else 2) * its.mlp)


def _first(config: Any, *names: str) -> Any:
    """Returns the value of the first of these names that a configuration has; None if it has none."""
    return next((getattr(config, name) for name in names if getattr(config, name, None)), None)


def _mlp(config: Any, side: str, width: int) -> int:
    return int(_first(config, f"{side}_ffn_dim", "intermediate_size") or width * config.mlp_ratio)


def _head_flop(skeleton: Skeleton, module: str) -> int:
    """Returns the FLOP of the output head for a token, or of the projector for a patch or a position."""
    if module == "llm":
        return _FLOP_PER_WEIGHT * int(skeleton.model.get_output_embeddings().weight.numel())
    tower, *others = module_attributes(skeleton.model, module)
    projectors = [own for own in (getattr(tower.get(), name, None) for name in MERGERS) if own is not None]
    own = [each for projector in projectors for each in projector.parameters()]
    own = own or [each for attribute in others for each in attribute.parameters()]
    weights = sum(each.numel() for each in own if each.dim() == 2)
    return _FLOP_PER_WEIGHT * int(weights) // _units_in_a_vector(skeleton)


def _units_in_a_vector(skeleton: Skeleton) -> int:
    """Returns how many units' values the projector takes together."""
    if skeleton.encoder == "audio":
        return _POSITIONS_IN_A_VECTOR
    merged = getattr(skeleton.config.vision_config, "spatial_merge_size", None)
    shrunk = getattr(skeleton.config, "downsample_ratio", None)
    side = int(merged) if merged else round(1 / shrunk) if shrunk else 1
    return side * side
