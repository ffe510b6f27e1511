"""Measured seconds, without ever making the host wait for the device."""

import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from isocost.microbatch import MODULES

Finish = Callable[[], Optional[float]]
# Stretches of no one module: all that was measured; of it, forward and backward passes.
ALL, FORWARD, BACKWARD = "all", "forward", "backward"


class Stopwatch:
    """One stretch of work: a monotonic clock, or CUDA events on the current stream.

    `stop` ends it; `seconds` is None until the device has passed the second event.
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
            return self._end - self._start
        if not self._end.query():
            return None
        return self._start.elapsed_time(self._end) / 1e3

    def _mark(self) -> Any:
        if self._cuda is None:
            return time.perf_counter()
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event


def _cuda() -> Any:
    import torch

    return torch.cuda if torch.cuda.is_initialized() else None


class Pending:
    """Stretches of microbatches that are not all measured yet, in order."""

    def __init__(self) -> None:
        self._waiting: List[Tuple[Any, Dict[str, List[Stopwatch]]]] = []

    def add(self, microbatch: Any, watches: Dict[str, List[Stopwatch]]) -> None:
        if watches:
            self._waiting.append((microbatch, watches))

    def measured(self) -> List[Tuple[Any, Dict[str, float]]]:
        """What the device has finished since the last call; the rest waits for the next."""
        finished = []
        while self._waiting:
            microbatch, watches = self._waiting[0]
            seconds = {name: [watch.seconds() for watch in parts] for name, parts in watches.items()}
            if any(value is None for values in seconds.values() for value in values):
                break
            self._waiting.pop(0)
            finished.append((microbatch, {name: sum(values) for name, values in seconds.items()}))
        return finished

    def clear(self) -> None:
        self._waiting.clear()


class Passes:
    """Forward and backward passes of the step's microbatches, between which other microbatches' come: a
    microbatch's are complete with the backward pass of its last chunk."""

    def __init__(self, chunks: int, pending: Pending):
        self._chunks = chunks  # of the model, each with a backward pass of its own
        self._pending = pending
        self._step: Optional[Tuple[int, int]] = None
        self._measured: Dict[int, Dict[str, List[Stopwatch]]] = {}  # by the microbatch's index

    def check(self, part: str, microbatch: Any) -> None:
        """Raises ValueError for a backward pass without a forward pass."""
        at = (microbatch.epoch, microbatch.step)
        if part == BACKWARD and (at != self._step or microbatch.index not in self._measured):
            raise ValueError(f"timed: no forward pass of {microbatch!r} was measured whose backward pass this would be: "
                             f"measure it with part=\"forward\" first; each is reported after {self._chunks} of part=\"backward\", "
                             "and dropped where the next step begins before")

    def add(self, part: str, microbatch: Any, watch: Stopwatch) -> None:
        if self._step != (microbatch.epoch, microbatch.step):  # what has no backward pass by now (evaluation) is nobody's
            self.clear()
            self._step = (microbatch.epoch, microbatch.step)
        passes = self._measured.setdefault(microbatch.index, {FORWARD: [], BACKWARD: []})
        passes[part].append(watch)
        if len(passes[BACKWARD]) == self._chunks:
            del self._measured[microbatch.index]
            self._pending.add(microbatch, {ALL: passes[FORWARD] + passes[BACKWARD], FORWARD: passes[FORWARD]})

    def clear(self) -> None:
        self._measured.clear()


class ModuleTimers:
    """Hooks that time the modules of a model: see `attach`."""

    def __init__(self, active: Callable[[], bool]):
        self._active = active  # whether a microbatch is in use, whose seconds these are
        self._watches: Dict[str, List[Stopwatch]] = {}
        self._backward: Optional[Stopwatch] = None  # of the module whose backward runs now
        self._handles: List[Any] = []

    def watch(self, module: Any, name: str) -> None:
        running: List[Optional[Stopwatch]] = []

        def before(_module: Any, _inputs: Any) -> None:
            running.append(Stopwatch() if self._active() else None)

        def after(_module: Any, _inputs: Any, outputs: Any) -> None:
            watch = running.pop()
            if watch is None:
                return
            self._add(name, watch.stop())
            for tensor in _tensors(outputs):
                if tensor.requires_grad:
                    tensor.register_hook(lambda _gradient: self._begin_backward(name))
                    break

        self._handles.append(module.register_forward_pre_hook(before))
        self._handles.append(module.register_forward_hook(after))

    def _begin_backward(self, name: str) -> None:
        import torch

        # Modules run one after the other: where one begins, the one before has ended. The last one ends with the
        # backward pass; what the training loop does then (gradients' reduction, the optimizer, a checkpoint) is nobody's.
        self._end_backward()
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        self._backward = Stopwatch()
        self._add(name, self._backward)

    def _end_backward(self) -> None:
        if self._backward is not None:
            self._backward.stop()
        self._backward = None

    def _add(self, name: str, watch: Stopwatch) -> None:
        self._watches.setdefault(name, []).append(watch)

    def take(self) -> Dict[str, List[Stopwatch]]:
        """What was measured since the last call."""
        taken, self._watches = self._watches, {}
        return taken

    def remove(self) -> None:
        """Takes the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []


class StageTimers(ModuleTimers):
    """Hooks that time passes of pipeline stages, whatever the order in which a schedule runs them. A pass
    is told by the tensor `cu_seqlens` that it is called with: torch.distributed.pipelining hands it on
    as it is, and a copy where it only infers shapes."""

    def __init__(self, modules: List[Any]):
        super().__init__(lambda: True)
        self._microbatches: Dict[int, int] = {}  # by the identity of their tensor
        for module in modules:
            self._follow(module)

    def begin(self, keys: List[Any]) -> None:
        """Of the step's microbatches, in order; they are kept by the caller."""
        self._microbatches = {id(key): i for i, key in enumerate(keys)}
        self.take()

    def of(self, microbatch: int, share: float) -> Dict[str, List[Any]]:
        """What was measured of the microbatch's passes, times `share`."""
        forward, backward = ([_Share(watch, share) for watch in self._watches.get(f"{way} {microbatch}", [])]
                             for way in ("forward", "backward"))
        return {ALL: forward + backward, FORWARD: forward} if forward and backward else {}

    def _follow(self, module: Any) -> None:
        running: List[Stopwatch] = []

        def before(_module: Any, _inputs: Any, _keywords: Any) -> None:
            running.append(Stopwatch())

        def after(_module: Any, _inputs: Any, keywords: Any, outputs: Any) -> None:
            watch = running.pop().stop()
            microbatch = self._microbatches.get(id(keywords.get("cu_seqlens")))
            if microbatch is None:
                return
            self._add(f"forward {microbatch}", watch)
            for tensor in _tensors(outputs):
                if tensor.requires_grad:
                    tensor.register_hook(lambda _gradient: self._begin_backward(f"backward {microbatch}"))
                    break

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, with_kwargs=True))


class _Share:
    """Part of a stretch."""

    def __init__(self, watch: Stopwatch, share: float):
        self._watch = watch
        self._share = share

    def seconds(self) -> Optional[float]:
        seconds = self._watch.seconds()
        return None if seconds is None else seconds * self._share


def _tensors(outputs: Any) -> List[Any]:
    import torch

    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, (list, tuple)):
        return [tensor for output in outputs for tensor in _tensors(output)]
    return []


_loader: Optional[weakref.ref] = None


def set_current(loader: Any) -> None:
    global _loader
    _loader = weakref.ref(loader)


def attach(model: Any, loader: Any = None, **modules: str) -> ModuleTimers:
    """Times parts of a model and reports their seconds, without touching the training script.

    Hooks on the named submodules measure forward and backward of each microbatch; the loader sends
    the sums back when the next microbatch is asked for. On a CUDA device events are used and the
    stream is never waited for.

    Args:
        model: a torch.nn.Module; a DistributedDataParallel wrapper is looked through.
        loader: the isocost.DataLoader; default: the one that was made last.
        **modules: name of the submodule for each module of the cost model: `vision`, `audio`,
            `llm`, or `encoder` for vision and audio together.

    Returns: the timers; `remove()` takes the hooks off. Those of an earlier call for the same loader
        are taken off.
    Raises: ValueError for a submodule that the model lacks, a module that the cost model lacks, and a
        loader whose layout has several stages, where passes of other microbatches come between one's
        own; RuntimeError without a loader.

    Example:
        >>> isocost.attach(model, encoder="vision_tower", llm="language_model")
    """
    if loader is None:
        loader = _loader() if _loader is not None else None
    if loader is None:
        raise RuntimeError("attach: make the isocost.DataLoader first, or pass loader=")
    if loader.layout is not None and not loader.layout.whole:
        raise ValueError(f"attach: layout {loader.layout.file} has several stages, and its schedule runs other microbatches' "
                         "forward passes before one's backward pass: hooks cannot tell whose seconds these are. Use "
                         "isocost.schedule_steps(loader, timed=...), loader.timed(microbatch, part=\"forward\") and "
                         "\"backward\", or loader.report(microbatch, seconds, forward=...)")
    if not modules:
        raise ValueError("attach: name a submodule, e.g. llm='language_model'")
    known = dict(getattr(model, "module", model).named_modules())
    timers = ModuleTimers(loader._in_use())
    for name, path in modules.items():
        if name not in (*MODULES, "encoder"):
            raise ValueError(f"attach: '{name}' is no module of the cost model; there are {', '.join(MODULES)}, and "
                             "encoder for vision and audio together")
        if path not in known:
            raise ValueError(f"attach: {name}='{path}': the model has no such submodule; it has: "
                             + ", ".join(sorted(part for part in known if part and "." not in part)))
    for name, path in modules.items():
        timers.watch(known[path], name)
    loader._use_timers(timers)
    return timers
