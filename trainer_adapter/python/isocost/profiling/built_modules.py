"""The modules of a model in a directory, built one at a time and measured."""

import gc
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from isocost.profiling.architecture import architecture
from isocost.profiling.clock import clock_of_device
from isocost.profiling.descriptions import Cut, Forward, ProfiledModule
from isocost.profiling.device_memory import free_bytes
from isocost.profiling.fewer_layers import extrapolate, layers_that_fit
from isocost.profiling.largest_load import Trial, largest_load
from isocost.profiling.profiler import ModuleProfiler, backward
from isocost.profiling.random_loads import Limits, Loads
from isocost.profiling.skeleton import Skeleton, first_layers, layer_list

# Number of runs of the largest microbatch whose time a profile takes: 15 loads and 5 of a cut, 5 times each, most of
# them smaller.
_RUNS = 60
_TIMED = 2  # runs of each trial; the shorter one counts


class How(NamedTuple):
    """Settings for running a module.

    Attributes:
        device: torch.device.
        dtype: torch.dtype of the weights.
        frozen: whether the module is not trained.
        most_units: of the largest microbatch; None: what the budget has time for and the device memory.
        room: bytes that the module may take; None: those that are free.
    """

    device: Any
    dtype: Any
    frozen: bool = False
    most_units: Optional[int] = None
    room: Optional[int] = None


class Measured(NamedTuple):
    """A module that was measured.

    Attributes:
        document: the module's part of a model profile.
        attention: implementation in use.
        layers: layers that ran.
        all_layers: layers that the module has.
        parameters: all of the module's.
        most_units: of the largest microbatch that was asked for.
    """

    document: Dict[str, Any]
    attention: str
    layers: int
    all_layers: int
    parameters: int
    most_units: int


class BuiltModule:
    """A module with random weights on a device; the other modules of its model have no memory.

    Args:
        skeleton: of the model, with the layers that are built.
        module: "vision", "audio" or "llm".
    """

    def __init__(self, skeleton: Skeleton, module: str, loads: Loads, how: How):
        self._module, self._loads, self._how = module, loads, how
        self._model = skeleton.build(module, how.device, how.dtype, how.frozen)
        self.layers = len(layer_list(self._model, module).get())

    def prepare(self, lengths: List[int]) -> Forward:
        """Makes the inputs, as ProfiledModule.prepare does."""
        forward = self._loads.forward(self._model, lengths, self._how.device)
        if not self._how.frozen:
            return forward

        def without_gradients() -> Any:
            import torch

            with torch.no_grad():
                return forward()

        return without_gradients

    def prepare_with(self, layers: int) -> Callable[[List[int]], Forward]:
        """Returns `prepare` for the module with only its first layers."""

        def prepare(lengths: List[int]) -> Forward:
            forward = self.prepare(lengths)

            def with_fewer() -> Any:
                with first_layers(self._model, self._module, layers):
                    return forward()

            return with_fewer

        return prepare

    def largest_load(self, seconds: float) -> int:
        """Returns the units of the largest microbatch whose run takes up to `seconds`, and for which there is
        memory."""
        limits = self._loads.limits

        def run(units: int) -> Trial:
            forward = self.prepare(_longest_first(units, limits))
            backward(forward())
            clock = clock_of_device()
            peak_bytes = clock.peak_bytes(lambda: backward(forward()))
            marks = [clock.mark()]
            for _run in range(_TIMED):
                backward(forward())
                marks.append(clock.mark())
            clock.settle()
            return Trial(min(clock.between(*pair) for pair in zip(marks, marks[1:])), peak_bytes)

        return largest_load(run, limits.first, limits.most, seconds, lambda: free_bytes(self._how.device))


def _longest_first(units: int, limits: Limits) -> List[int]:
    """Returns the lengths of as few sequences as possible that sum to about `units` units."""
    length = min(limits.longest, max(limits.multiple, units // limits.multiple * limits.multiple))
    return [length] * max(1, units // length)


def measure(skeleton: Skeleton, module: str, loads: Loads, how: How, budget_s: float,
            say: Callable[[str], None]) -> Measured:
    """Builds a module, measures it, and frees it. Blocks for the budget, and while weights are made.

    say: receives lines of progress.
    Raises: MemoryError where not even few of the module's layers fit in memory; what ModuleProfiler.run raises.
    """
    whole = architecture(skeleton, module)
    parameters = skeleton.parameters(module)
    layers = _fitting_layers(skeleton, module, how)
    say(f"{module}: {parameters / 1e6:,.1f} million parameters in {whole.layers} layers of width {whole.width}")
    if layers < whole.layers:
        say(f"{module}: {layers} of its {whole.layers} layers fit in memory; the others are extrapolated")
    fitting = skeleton if layers == whole.layers else skeleton.with_layers(module, layers)
    built = BuiltModule(fitting, module, loads, how)
    try:
        most = how.most_units or built.largest_load(budget_s / _RUNS)
        say(f"{module}: up to {most} units in a microbatch")
        profiled = _profiled(built, loads.limits, most, whole._replace(layers=layers), skeleton.period(module))
        profiler = ModuleProfiler(module, profiled, budget_s, say)
        profiler.run()
    finally:
        del built
        _collect(how.device)
    document = profiler.to_json()
    if layers < whole.layers:
        document = extrapolate(document, layers, whole.layers)
    return Measured({**document, "architecture": whole.to_json()}, skeleton.attention(module), layers, whole.layers,
                    parameters, most)


def _profiled(built: BuiltModule, limits: Limits, most: int, its: Any, period: int) -> ProfiledModule:
    half = built.layers // 2 // period * period
    cuts = [Cut(built.prepare_with(half), layers=half)] if half else []
    longest = min(limits.longest, max(limits.multiple, most // limits.multiple * limits.multiple))
    return ProfiledModule(built.prepare, (min(limits.shortest, longest), longest), max(most, longest), limits.multiple,
                          its, cuts)


def _fitting_layers(skeleton: Skeleton, module: str, how: How) -> int:
    import torch

    layers = skeleton.layers(module)
    total = skeleton.parameters(module)
    sizes = [sum(each.numel() for each in layer.parameters()) for layer in layers]
    copies = 1 if how.frozen else 2  # weights, and their gradients
    size = int(torch.empty(0, dtype=how.dtype).element_size())

    def bytes_of(count: int) -> int:
        return int(copies * size * (total - sum(sizes[count:])))

    room = free_bytes(how.device) if how.room is None else how.room
    fitting = layers_that_fit(len(layers), skeleton.period(module), bytes_of, room)
    if fitting is None:
        raise MemoryError(f"{module}: {total / 1e6:,.1f} million parameters, and {room / 2**30:.1f} GiB are free: not "
                          "even two of its layers fit beside its embeddings with room for activations; choose a "
                          "smaller dtype or another device")
    return fitting


def _collect(device: Any) -> None:
    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
