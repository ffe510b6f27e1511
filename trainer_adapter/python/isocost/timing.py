"""Measured seconds, without ever making the host wait for the device."""

import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Protocol, Sequence

from isocost.outputs import tensors_of
from isocost.tensor_names import CU_SEQLENS


class Stretch(Protocol):
    """A stretch of work whose seconds are known once the device has finished it."""

    def seconds(self) -> Optional[float]: ...


class Stopwatch:
    """One stretch of work, measured by a monotonic clock, or by CUDA events on the current stream.

    `stop` ends it. `seconds` returns None until the device has passed the second event.
    """

    def __init__(self) -> None:
        self._cuda = _cuda()
        self._start = self._mark()
        self._end: Any = None

    def stop(self) -> "Stopwatch":
        if self._end is None:
            self._end = self._mark()
        return self

    def seconds(self) -> Optional[float]:
        if self._end is None:
            return None
        if self._cuda is None:
            return float(self._end - self._start)
        if not self._end.query():
            return None
        return float(self._start.elapsed_time(self._end)) / 1e3

    def _mark(self) -> Any:
        if self._cuda is None:
            return time.perf_counter()
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event


def _cuda() -> Any:
    import torch

    return torch.cuda if torch.cuda.is_initialized() else None


class Measured(NamedTuple):
    """Seconds of one microbatch.

    Attributes:
        modules: the seconds of each module that was measured separately; empty if the whole was measured.
        whole: the seconds of all modules together; None if modules were measured separately.
        forward: the part of the seconds that forward passes took; None: it was not measured apart.
    """

    modules: Dict[str, float] = {}
    whole: Optional[float] = None
    forward: Optional[float] = None


class Stretches(NamedTuple):
    """The stretches of one microbatch, from which Measured follows: its fields are sums of theirs."""

    modules: Dict[str, Sequence[Stretch]] = {}
    whole: Sequence[Stretch] = ()
    forward: Sequence[Stretch] = ()

    def measured(self) -> Optional[Measured]:
        """None until the device has finished all of them."""
        values = [stretch.seconds() for stretch in self._all()]
        known = iter([value for value in values if value is not None])
        if None in values:
            return None
        modules = {name: _sum(stretches, known) for name, stretches in self.modules.items()}
        return Measured(modules, _sum(self.whole, known) if self.whole else None,
                        _sum(self.forward, known) if self.forward else None)

    def _all(self) -> Iterator[Stretch]:
        for stretches in self.modules.values():
            yield from stretches
        yield from self.whole
        yield from self.forward

    def __bool__(self) -> bool:
        return any(True for _ in self._all())


def _sum(stretches: Sequence[Stretch], values: Iterator[float]) -> float:
    return sum(next(values) for _ in stretches)


class ModuleTimers:
    """Hooks that time the modules of a model; see `DataLoader.attach`."""

    def __init__(self, active: Callable[[], bool]):
        self._active = active  # Whether a microbatch is in use, whose seconds these are.
        self._watches: Dict[str, List[Stopwatch]] = {}
        self._backward: Optional[Stopwatch] = None  # Of the module whose backward pass runs now.
        self._handles: List[Any] = []

    @property
    def watches(self) -> Dict[str, List[Stopwatch]]:
        """The stretches that were measured since the last `take`, by module."""
        return self._watches

    def watch(self, module: Any, name: str) -> None:
        """Times the forward and backward passes of a torch.nn.Module."""
        running: List[Optional[Stopwatch]] = []

        def before(_module: Any, _inputs: Any) -> None:
            running.append(Stopwatch() if self._active() else None)

        def after(_module: Any, _inputs: Any, outputs: Any) -> None:
            watch = running.pop()
            if watch is None:
                return
            self._add(name, watch.stop())
            self._follow_backward(outputs, name)

        self._handles.append(module.register_forward_pre_hook(before))
        self._handles.append(module.register_forward_hook(after))

    def take(self) -> Dict[str, List[Stopwatch]]:
        """Returns what was measured since the last call."""
        taken, self._watches = self._watches, {}
        return taken

    def remove(self) -> None:
        """Takes the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _follow_backward(self, outputs: Any, name: str) -> None:
        for tensor in tensors_of(outputs):
            if tensor.requires_grad:
                tensor.register_hook(lambda _gradient: self._begin_backward(name))
                return

    def _begin_backward(self, name: str) -> None:
        import torch

        # Modules run one after the other: where one begins, the one before has ended. The last one ends with the
        # backward pass; what the training loop does then (gradients' reduction, the optimizer, a checkpoint) is not
        # counted. torch has no public way to run a function at the end of the backward pass.
        self._end_backward()
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)  # noqa: SLF001
        self._backward = Stopwatch()
        self._add(name, self._backward)

    def _end_backward(self) -> None:
        if self._backward is not None:
            self._backward.stop()
        self._backward = None

    def _add(self, name: str, watch: Stopwatch) -> None:
        self._watches.setdefault(name, []).append(watch)


class StageTimers(ModuleTimers):
    """Hooks that time the passes of pipeline stages, whatever the order in which a schedule runs them.

    A pass is recognised by the tensor `cu_seqlens` that it is called with: torch.distributed.pipelining hands it on as
    it is, and hands on a copy where it only infers shapes.
    """

    def __init__(self, modules: List[Any]):
        super().__init__(lambda: True)
        self._microbatches: Dict[int, int] = {}  # By the identity of their tensor.
        for module in modules:
            self._follow(module)

    def begin(self, keys: List[Any]) -> None:
        """Begins a step. `keys` holds the tensors of its microbatches, in order; the caller keeps them alive."""
        self._microbatches = {id(key): i for i, key in enumerate(keys)}
        self.take()

    def of(self, microbatch: int, share: float) -> Stretches:
        """What was measured of the microbatch's passes, times `share`; nothing where a pass is missing."""
        forward, backward = ([Share(watch, share) for watch in self._watches.get(f"{way} {microbatch}", [])]
                             for way in ("forward", "backward"))
        return Stretches(whole=forward + backward, forward=forward) if forward and backward else Stretches()

    def _follow(self, module: Any) -> None:
        running: List[Stopwatch] = []

        def before(_module: Any, _inputs: Any, _keywords: Any) -> None:
            running.append(Stopwatch())

        def after(_module: Any, _inputs: Any, keywords: Any, outputs: Any) -> None:
            watch = running.pop().stop()
            microbatch = self._microbatches.get(id(keywords.get(CU_SEQLENS)))
            if microbatch is None:
                return
            self._add(f"forward {microbatch}", watch)
            self._follow_backward(outputs, f"backward {microbatch}")

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, with_kwargs=True))


class Without:
    """A stretch, less others that lie in it."""

    def __init__(self, whole: Stretch, others: Sequence[Stretch]):
        self._whole = whole
        self._others = others

    def seconds(self) -> Optional[float]:
        seconds = [stretch.seconds() for stretch in (self._whole, *self._others)]
        known = [value for value in seconds if value is not None]
        return known[0] - sum(known[1:]) if len(known) == len(seconds) else None


class Share:
    """A part of a stretch."""

    def __init__(self, watch: Stretch, share: float):
        self._watch = watch
        self._share = share

    def seconds(self) -> Optional[float]:
        seconds = self._watch.seconds()
        return None if seconds is None else seconds * self._share
