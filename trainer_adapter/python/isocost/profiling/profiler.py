"""Measures one module of a model: makes the runs that costmodel/profiling_method.h asks for."""

import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from isocost import _isocost
from isocost.base.modules import tensors_of
from isocost.profiling.clock import Clock, clock_of_device, is_out_of_memory
from isocost.profiling.descriptions import Forward, ProfiledModule


def backward(outputs: Any) -> bool:
    """Differentiates the sum of all outputs. Returns False if none of them requires gradients."""
    tensors = [t for t in tensors_of(outputs) if t.requires_grad] if "torch" in sys.modules else []
    if not tensors:
        return False
    sum(tensor.float().sum() for tensor in tensors).backward()
    return True


class ModuleProfiler:
    """Measures one module until its budget is spent or its curve is known.

    Args:
        name: the module's name, for messages.
        module: what to measure.
        budget_s: seconds for the module and its cuts.
        say: receives a line of progress for each load.
        clock: measures seconds and peak memory; None: the device's clock, chosen after the first run, since that run
            may be what initializes CUDA.
        agree: returns the first process's value in all processes that measure together, so that all decide alike.
        backward: differentiates outputs, and returns False if they do not require gradients.

    Raises: ValueError for invalid limits or cuts.
    """

    def __init__(self, name: str, module: ProfiledModule, budget_s: float, say: Callable[[str], None],
                 clock: Optional[Clock] = None, agree: Callable[[Any], Any] = lambda value: value,
                 backward: Callable[[Any], bool] = backward):
        layers = 0 if module.architecture is None else module.architecture.layers
        self.method = _isocost.ProfilingMethod(
            module=name, lengths=module.lengths, most_units=module.most_units, multiple=module.multiple, layers=layers,
            cuts=[(cut.tensor, cut.layers) for cut in module.cuts], budget_s=budget_s)
        self._name = name
        self._module = module
        self._say = say
        self._clock = clock
        self._agree = agree
        self._backward = backward
        self._forward: Optional[Forward] = None

    def run(self, now: Callable[[], float] = time.monotonic) -> None:
        """Measures. Blocks for the budget.

        now: host clock, in seconds, by which the budget is spent.
        Raises: ValueError if the smallest load runs out of memory, or if the clock stands still; TypeError if
            `prepare` returns nothing to call; whatever `prepare` and the module raise, except when memory runs out.
        """
        begin = now()

        def elapsed_s() -> float:
            return float(self._agree(now() - begin))

        run = self.method.next()
        while run is not None:
            measured = self._agree(self._measured(run))
            if measured is None:
                self._forward = None
                self.method.record_out_of_memory(elapsed_s=elapsed_s())
            else:
                forward_s, backward_s, peak_bytes = measured
                self.method.record(elapsed_s=elapsed_s(), forward_s=forward_s, backward_s=backward_s,
                                   peak_bytes=peak_bytes)
            for line in self.method.take_progress():
                self._say(line)
            run = self.method.next()
        self._forward = None

    def to_json(self) -> Dict[str, Any]:
        """Returns the module's part of a model profile, as docs/model_profile.md describes it."""
        document: Dict[str, Any] = self.method.to_json()
        if self._module.architecture is not None:
            document["architecture"] = self._module.architecture.to_json()
        return document

    def _measured(self, run: _isocost.ProfilingRun) -> Optional[Tuple[float, float, int]]:
        """Returns what `_measure` does; None if memory runs out, which processes agree on like on all else."""
        try:
            return self._measure(run)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return None

    def _measure(self, run: _isocost.ProfilingRun) -> Tuple[float, float, int]:
        """Makes the run. Returns its forward seconds, backward seconds and bytes of peak memory; 0 for values that the
        run does not measure."""
        if run.new_inputs:
            self._forward = None  # frees the last inputs before the next ones are made
            self._forward = self._prepare(run.cut, [run.length] * run.sequences)
        forward = self._forward
        assert forward is not None
        if run.kind == "warm_up":
            self._backward(forward())
            return 0.0, 0.0, 0
        if self._clock is None:
            self._clock = clock_of_device()
        if run.kind == "peak_memory":
            return 0.0, 0.0, self._clock.peak_bytes(lambda: self._backward(forward()))
        return (*self._time(forward, self._clock), 0)

    def _prepare(self, cut: Optional[int], lengths: List[int]) -> Forward:
        forward = (self._module if cut is None else self._module.cuts[cut]).prepare(lengths)
        if not callable(forward):
            raise TypeError(f"profile_model: {self._name}: prepare(lengths) returned a {type(forward).__name__}; it "
                            "must return the forward pass, as something to call")
        return forward

    def _time(self, forward: Forward, clock: Clock) -> Tuple[float, float]:
        """Returns the seconds of one forward and of one backward pass."""
        clock.overwrite_caches()
        start = clock.mark()
        outputs = forward()
        middle = clock.mark()
        clock.overwrite_caches()
        second = clock.mark()
        trained = self._backward(outputs)
        last = clock.mark()
        clock.settle()
        return clock.between(start, middle), clock.between(second, last) if trained else 0.0
