"""Measured seconds of microbatches, and hooks that measure a model's modules."""

import time
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from isocost.base.modules import tensors_of
from isocost.base.tensor_names import CU_SEQLENS
from isocost.timing.own_work import OwnWork
from isocost.timing.stopwatch import Stretch


class Measured(NamedTuple):
    """Seconds of one microbatch.

    Attributes:
        modules: the seconds of each module that was measured separately; empty if the whole was measured.
        whole: the seconds of all modules together; None if modules were measured separately.
        forward: the part of the seconds that forward passes took; None: it was not measured apart.
        communication: seconds of waiting for communication between the passes' computation, which are not part of them.
    """

    modules: Dict[str, float] = {}
    whole: Optional[float] = None
    forward: Optional[float] = None
    communication: float = 0.0


class Stretches(NamedTuple):
    """The stretches of one microbatch. Their sums are the fields of Measured; `measuring_s` are seconds that measuring
    them took."""

    modules: Dict[str, Sequence[Stretch]] = {}
    whole: Sequence[Stretch] = ()
    forward: Sequence[Stretch] = ()
    communication: Sequence[Stretch] = ()
    measuring_s: float = 0.0

    def measured(self) -> Optional[Measured]:
        """Returns their sums; None until the device has finished all of them."""
        try:
            return Measured({name: _sum(stretches) for name, stretches in self.modules.items()},
                            _sum(self.whole) if self.whole else None, _sum(self.forward) if self.forward else None,
                            _sum(self.communication))
        except _UnfinishedError:
            return None

    def __bool__(self) -> bool:
        return bool(self.whole or self.forward or self.communication or any(self.modules.values()))


class _UnfinishedError(Exception):
    """Raised where the device has not finished a stretch."""


def _sum(stretches: Sequence[Stretch]) -> float:
    total = 0.0
    for stretch in stretches:
        seconds = stretch.seconds()
        if seconds is None:
            raise _UnfinishedError
        total += seconds
    return total


class ModuleTimers:
    """Hooks that time the modules of a model; see `DataLoader.attach`."""

    def __init__(self, active: Callable[[], bool], shared: bool = False):
        self._active = active  # Returns whether a microbatch is in use, to which the seconds belong.
        self._shared = shared  # Whether other processes train on it, too.
        self._watches: Dict[str, List[OwnWork]] = {}
        self._running: List[List[Optional[OwnWork]]] = []  # Running forward passes, by module.
        self._backward: Optional[OwnWork] = None  # The module whose backward pass runs now.
        self._microbatch: Optional[OwnWork] = None  # The stretch since `begin_microbatch`.
        self._handles: List[Any] = []

    @property
    def watches(self) -> Dict[str, List[OwnWork]]:
        """The stretches that were measured since the last `take`, by module."""
        return self._watches

    def watch(self, module: Any, name: str) -> None:
        """Times the forward and backward passes of a torch.nn.Module."""
        running = self._stack()

        def before(_module: Any, _inputs: Any) -> None:
            if self._backward is not None:  # A checkpoint computes the module again, within a backward pass.
                self._begin_backward(name)
                return
            running.append(self._begin_work() if self._active() else None)

        def after(_module: Any, _inputs: Any, outputs: Any) -> None:
            watch = running.pop() if running and self._backward is None else None
            if watch is None:
                return
            began = time.perf_counter()
            self._add(name, watch.stop())
            self._follow_backward(outputs, name)
            watch.count_measuring(began)

        self._handles.append(module.register_forward_pre_hook(before))
        self._handles.append(module.register_forward_hook(after))

    def begin_microbatch(self) -> None:
        """Begins the microbatch that the next `take` ends."""
        self._microbatch = OwnWork(self._shared)

    def take(self) -> Tuple[Dict[str, List[OwnWork]], Optional[OwnWork]]:
        """Returns the stretches since the last call, by module, and the stretch of the whole microbatch."""
        for running in self._running:  # These passes were left by an exception.
            for watch in running:
                if watch is not None:
                    watch.stop()
            running.clear()
        self._end_backward()
        if self._microbatch is not None:
            self._microbatch.stop()
        taken = self._watches, self._microbatch
        self._watches, self._microbatch = {}, None
        return taken

    @property
    def attached(self) -> bool:
        """Whether the hooks are on the model."""
        return bool(self._handles)

    def remove(self) -> None:
        """Takes the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.take()

    def _begin_work(self) -> OwnWork:
        began = time.perf_counter()
        work = OwnWork(self._shared)
        work.count_measuring(began)
        return work

    def _stack(self) -> List[Optional[OwnWork]]:
        stack: List[Optional[OwnWork]] = []
        self._running.append(stack)
        return stack

    def _follow_backward(self, outputs: Any, name: str) -> None:
        for tensor in tensors_of(outputs):
            if tensor.requires_grad:
                tensor.register_hook(lambda _gradient: self._begin_backward(name))
                return

    def _begin_backward(self, name: str) -> None:
        import torch

        is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None)
        if is_compiling is not None and is_compiling():  # Compiled autograd has no such callbacks.
            return
        began = time.perf_counter()
        # Modules run one after the other: where one begins, the one before has ended. The last one ends with the
        # backward pass; later work of the training loop (gradients' reduction, the optimizer, a checkpoint) is not
        # counted. torch has no public way to run a function at the end of the backward pass.
        self._end_backward()
        torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)  # noqa: SLF001
        self._backward = OwnWork(self._shared)
        self._add(name, self._backward)
        self._backward.count_measuring(began)

    def _end_backward(self) -> None:
        if self._backward is not None:
            self._backward.stop()
        self._backward = None

    def _add(self, name: str, watch: OwnWork) -> None:
        self._watches.setdefault(name, []).append(watch)


def measuring_of(works: Iterable[OwnWork]) -> float:
    """Returns the seconds that measuring these took."""
    return sum(work.measuring_s for work in works)


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
        """Begins a step. `keys` holds the tensors of its microbatches, in order; the caller keeps them alive. Without
        any, nothing is measured."""
        self._microbatches = {id(key): i for i, key in enumerate(keys)}
        self.take()

    def of(self, microbatch: int, share: float) -> Stretches:
        """Returns the stretches of the microbatch's passes, times `share`; nothing if a pass is missing."""
        forward, backward = (self._watches.get(f"{way} {microbatch}", []) for way in ("forward", "backward"))
        if not forward or not backward:
            return Stretches()
        shares = [Share(watch, share) for watch in forward + backward]
        return Stretches(whole=shares, forward=shares[:len(forward)],
                         communication=[watch.communication for watch in forward + backward],
                         measuring_s=measuring_of(forward + backward))

    def _follow(self, module: Any) -> None:
        running = self._stack()

        def before(_module: Any, _inputs: Any, _keywords: Any) -> None:
            running.append(self._begin_work() if self._microbatches else None)

        def after(_module: Any, _inputs: Any, keywords: Any, outputs: Any) -> None:
            watch = running.pop()
            if watch is None:
                return
            began = time.perf_counter()
            watch.stop()
            microbatch = self._microbatches.get(id(keywords.get(CU_SEQLENS)))
            if microbatch is None:
                return
            self._add(f"forward {microbatch}", watch)
            self._follow_backward(outputs, f"backward {microbatch}")
            watch.count_measuring(began)

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, with_kwargs=True))


class Share:
    """A fraction of a stretch."""

    def __init__(self, watch: Stretch, share: float):
        self._watch = watch
        self._share = share

    def seconds(self) -> Optional[float]:
        seconds = self._watch.seconds()
        return None if seconds is None else seconds * self._share
