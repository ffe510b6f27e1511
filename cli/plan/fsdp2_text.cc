#include "cli/plan/fsdp2_text.h"

#include <string_view>

namespace isocost::cli {
namespace {

constexpr std::string_view kImports = R"py(
import contextlib
import functools
import os

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

)py";

constexpr std::string_view kFunctions = R"py(

def parallelize(model, encoder_layers, llm_layers, mixed_precision=None, device_type=None):
    """Returns the model, sharded over all ranks; make its optimizer afterwards.

    The layers are the transformer blocks of both modules, such as model.visual.blocks and model.language_model.layers.
    Both backends average gradients over ranks, while Isocost's loss is a sum: (loss * WORLD_SIZE).backward().
    """
    _check(encoder_layers, llm_layers)
    for module, layers in (("encoder", encoder_layers), ("llm", llm_layers)):
        for layer in layers:
            _recompute(layer, RECOMPUTE[module], module)
    device_type = device_type or ("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(device_type, int(os.environ.get("LOCAL_RANK", "0"))) if device_type != "cpu" else None
    if device is not None:
        torch.get_device_module(device).set_device(device)
    if SHARD == 1:
        if mixed_precision is not None:
            raise ValueError("DistributedDataParallel computes in the model's own type: leave mixed_precision out, and "
                             "make the model in bfloat16, as the plan assumes")
        return DistributedDataParallel(model if device is None else model.to(device))
    if mixed_precision is None:
        mixed_precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if REPLICATE > 1:
        mesh = init_device_mesh(device_type, (REPLICATE, SHARD), mesh_dim_names=("replicate", "shard"))
    else:
        mesh = init_device_mesh(device_type, (SHARD,), mesh_dim_names=("shard",))
    for module, layers in (("encoder", encoder_layers), ("llm", llm_layers)):
        for layer in layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=RESHARD_AFTER_FORWARD[module],
                        mp_policy=mixed_precision)
    fully_shard(model, mesh=mesh, mp_policy=mixed_precision)  # Each call moves its part to the device.
    return model


@contextlib.contextmanager
def accumulate(model, last_of_step):
    """Replicas reduce gradients in the backward pass of a step's last microbatch alone, as the plan assumes."""
    if SHARD > 1:
        model.set_requires_all_reduce(last_of_step)
        yield
    else:
        with contextlib.nullcontext() if last_of_step else model.no_sync():
            yield


def _check(encoder_layers, llm_layers):
    if not torch.distributed.is_initialized():
        raise RuntimeError("call torch.distributed.init_process_group() before parallelize()")
    ranks = torch.distributed.get_world_size()
    if ranks != WORLD_SIZE:
        raise RuntimeError(f"this job has {ranks} ranks, and the layout {WORLD_SIZE}: start as many, or plan with "
                           f"--gpus {ranks}")
    for module, layers in (("encoder", encoder_layers), ("llm", llm_layers)):
        weights = [weight for layer in layers for weight in layer.parameters()]
        trained = sum(weight.requires_grad for weight in weights)
        if TRAIN[module] == "none" and trained:
            raise ValueError(f"the layout freezes the {module}: call requires_grad_(False) on it first, or plan "
                             "without --freeze")
        if TRAIN[module] == "adapters" and trained == len(weights) and weights:
            raise ValueError(f"the layout trains adapters of the {module}, whose own weights are all trained: add the "
                             "adapters first, or plan without --adapters")
        if TRAIN[module] == "all" and trained < len(weights):
            raise ValueError(f"the layout trains the {module}, of which weights are frozen: plan with --freeze or "
                             "--adapters")


def _recompute(layer, kind, module):
    """Makes the backward pass compute the layer, or its MLP, again."""
    if kind == "none":
        return
    if kind == "selective":
        names = [name for name in ("mlp", "feed_forward", "ffn") if hasattr(layer, name)]
        if not names:
            raise ValueError(f"the layout recomputes the MLPs of the {module}, and {type(layer).__name__} has no mlp, "
                             "feed_forward or ffn: name the MLP here, or plan with --recompute full")
        layer = getattr(layer, names[0])
    layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
)py";

std::string literal(bool value) { return value ? "True" : "False"; }

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string text_of(std::string_view name, const std::string& encoder, const std::string& llm) {
  return std::string(name) + " = {\"encoder\": " + encoder + ", \"llm\": " + llm + "}\n";
}

}  // namespace

std::string fsdp2_text(const Layout& layout, const std::string& version,
                       const std::string& layout_file) {
  const ModuleDegrees& degrees = layout.llm;
  return "\"\"\"Shards a model with PyTorch (torch " + version +
         "), written by isocost plan for the layout in " + layout_file +
         ".\n\nThe loader takes the same layout: isocost.DataLoader(data, layout=\"" + layout_file +
         "\", ...).\n\"\"\"\n" + std::string(kImports) +
         "WORLD_SIZE = " + std::to_string(layout.ranks()) +
         "\nREPLICATE = " + std::to_string(degrees.data / degrees.shard) +
         "  # groups that hold the same shards\nSHARD = " + std::to_string(degrees.shard) +
         "  # ranks that share the weights; 1: DistributedDataParallel\n"
         "MICROBATCHES = " +
         std::to_string(layout.microbatches) +
         "  # of each rank and step\n"
         "# True: a layer drops its gathered weights after its forward pass, and gathers them\n"
         "# again for its backward pass.\n" +
         text_of("RESHARD_AFTER_FORWARD", literal(layout.encoder_training.reshard),
                 literal(layout.llm_training.reshard)) +
         text_of("RECOMPUTE", quoted(recompute_name(layout.encoder_training.recompute.front())),
                 quoted(recompute_name(layout.llm_training.recompute.front()))) +
         text_of("TRAIN", quoted(trained_weights_name(layout.encoder_training.weights)),
                 quoted(trained_weights_name(layout.llm_training.weights))) +
         std::string(kFunctions);
}

}  // namespace isocost::cli
