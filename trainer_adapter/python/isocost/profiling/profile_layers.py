"""Measures layers of a pipeline stage with random activations: a stage's part of a model profile.
docs/model_profile.md describes it."""

import numbers
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from isocost.base.modules import tensors_of
from isocost.profiling.descriptions import Forward, ProfiledModule, check
from isocost.profiling.profile_model import first_of
from isocost.profiling.profiler import ModuleProfiler
from isocost.rendezvous import rendezvous


class ProfiledLayers(NamedTuple):
    """Layers of a stage to measure. They stand for all layers of their module on this stage.

    module: a torch.nn.Module of one layer or of several equal ones, as it is trained: with its device, its type, its
        frozen weights.
    width: width of the activations between layers.
    lengths: the shortest and the longest sequence that the data have: patches of an image, positions of an audio
        window, tokens of a sample.
    most_units: patches, positions or tokens of the largest microbatch.
    layers: number of layers in `module`.
    multiple: every length is a multiple of this.
    run: called with random activations [1, units, width] and the lengths of the packed sequences in them; runs the
        layers and returns their outputs. None: `module(activations)`.
    """

    module: Any
    width: int
    lengths: Tuple[int, int]
    most_units: int
    layers: int = 1
    multiple: int = 1
    run: Optional[Callable[[Any, List[int]], Any]] = None


def profile_layers(budget_s: float = 1.0, *, group: Any = None, progress: bool = False,
                   **modules: ProfiledLayers) -> Dict[str, Any]:
    """Measures forward and backward seconds of a stage's layers, with random activations over a grid of loads, as
    isocost.profile_model does with whole modules: a stage has no inputs for inner layers. Returns what `reprofile=` of
    isocost.DataLoader returns in a layout of several stages. The node joins the parts of all stages.

    Gradients, and the state of torch's random numbers, stay what they were. Gradients are computed without hooks of
    DistributedDataParallel, so layers reduce none over their replicas.

    Args:
        budget_s: seconds for all modules together. Every load of the first grid runs at least 5 times regardless:
            measure few lengths if the budget is short.
        group: the torch.distributed process group whose ranks run these layers' collectives together, such as a
            tensor-parallel one. All of them call this alike, and the first one decides on runs for all.
        progress: whether a line is printed on stderr for each load.
        **modules: `vision`, `audio`, `llm`: a ProfiledLayers each, of all modules that this stage has layers of. All
            stages give the same `lengths` and `most_units`.

    Returns: the layer profile, as docs/model_profile.md describes it.
    Raises: TypeError and ValueError for invalid arguments; ValueError if the smallest load runs out of memory.

    Example:
        >>> def reprofile(budget_s):
        ...     block = ProfiledLayers(stage.blocks[0], width=3584, lengths=(64, 8192), most_units=16384)
        ...     return isocost.profile_layers(budget_s, llm=block)
        >>> loader = isocost.DataLoader("data/shards", layout="layout.json", reprofile=reprofile)
    """
    _check(modules, budget_s)
    first = rendezvous.is_first(group)

    def say(line: str) -> None:
        if progress and first:
            print(line, file=sys.stderr, flush=True)

    import torch

    profilers = {name: _profiler(name, layers, budget_s / len(modules), say, first_of(group))
                 for name, layers in modules.items()}
    measured: Dict[str, Any] = {}
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        for name, profiler in profilers.items():
            profiler.run()
            measured[name] = {"layers": modules[name].layers, **profiler.to_json()}
    return {"version": 1, "kind": "layer profile", "unit": "seconds", "modules": measured}


def _check(modules: Dict[str, ProfiledLayers], budget_s: float) -> None:
    check("profile_layers", ProfiledLayers, "module, width, lengths, most_units", modules, budget_s)
    for name, layers in modules.items():
        if not any(True for _parameter in layers.module.parameters()):
            raise ValueError(f"profile_layers: {name}: the module has no parameters, so it is no layer")
        for field in ("width", "layers"):
            value = getattr(layers, field)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"profile_layers: {name}: {field} = {value!r}: must be a whole number from 1")


def _profiler(name: str, layers: ProfiledLayers, budget_s: float, say: Callable[[str], None],
              agree: Callable[[Any], Any]) -> ModuleProfiler:
    import torch

    parameters = list(layers.module.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    # Gradients pass the language model on their way to the encoder. They end at an encoder that is frozen.
    passes_gradients = name == "llm" or bool(trained)
    like = parameters[0]
    inputs: List[Any] = []

    def prepare(lengths: List[int]) -> Forward:
        inputs.clear()  # before the next ones are made
        shape = (1, sum(lengths), layers.width)
        activations = torch.randn(shape, device=like.device, dtype=like.dtype, requires_grad=passes_gradients)
        inputs.append(activations)
        if layers.run is None:
            return lambda: layers.module(activations)
        run = layers.run
        return lambda: run(activations, lengths)

    def backward(outputs: Any) -> bool:
        tensors = [tensor for tensor in tensors_of(outputs) if tensor.requires_grad]
        if not tensors:
            return False
        wanted = [*inputs, *trained] if passes_gradients else trained
        try:  # Gradients that are returned do not reach the parameters, nor the hooks that wait there.
            found = torch.autograd.grad(tensors, wanted, [torch.ones_like(tensor) for tensor in tensors],
                                        allow_unused=True)
        except RuntimeError as error:
            if "Checkpointing is not compatible" not in str(error):
                raise
            raise ValueError(f"profile_layers: {name}: a reentrant checkpoint cannot be measured: use "
                             "torch.utils.checkpoint with use_reentrant=False, or give layers without it") from error
        if trained and all(gradient is None for gradient in found[len(wanted) - len(trained):]):
            raise ValueError(f"profile_layers: {name}: no weight of these layers gets a gradient, though some require "
                             "one, as with layers of fully_shard, which computes with other tensors: give a copy of "
                             "the layers that is not sharded")
        return True

    module = ProfiledModule(prepare, layers.lengths, layers.most_units, layers.multiple)
    return ModuleProfiler(name, module, budget_s, say, agree=agree, backward=backward)
