"""Measures a rank's own work, without its waiting for the communication of data-parallel training."""

import functools
import logging
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Iterator, List, Literal, Optional, Sequence

from isocost.timing.stopwatch import Stopwatch, Stretch, cuda

_LOG = logging.getLogger("isocost")

# Kinds of waits: a collective's `wait`; DistributedDataParallel's broadcast of buffers; a stream's wait for another
# stream.
Wait = Literal["collective", "buffers", "stream"]


class OwnWork:
    """The calling thread's work from construction to `stop`, without the waits for communication in it.

    It leaves out:
    - DistributedDataParallel reduces gradients while a backward pass computes them, and `backward` returns when they
      are reduced: when the slowest rank is done. What the rank computes itself ends before that: the autograd engine
      then runs the callbacks that were queued during the pass, in their order. The first one is queued here, when the
      pass begins; DDP's, which waits, is queued when the last gradient is computed. Buffers are broadcast in the
      forward pass.
    - FullyShardedDataParallel and `fully_shard` gather parameters and scatter gradients within both passes. They wait
      for a collective or, on a CUDA device, have the stream wait for another one.
    - Other collectives that the thread waits for.

    Args:
        shared: whether other processes (of tensor or context parallelism) train on the same microbatch. Collectives
            are then work, except those of the wrappers above.
    Attributes:
        communication: the waits, which `seconds` leaves out.
        unclear: whether a backward pass was run whose end, where waiting begins, cannot be seen.
        measuring_s: seconds of the thread that measuring itself took, as far as `count_measuring` was told.
    """

    def __init__(self, shared: bool = False) -> None:
        if not _installed:
            _install()
        self.unclear = False
        self._shared = shared
        self._thread = threading.get_ident()
        self._stream = _current_stream()
        self.communication = Total()
        self._is_waiting = False
        self._whole = Stopwatch()
        self.measuring_s = 0.0
        _open.append(self)

    def stop(self) -> "OwnWork":
        self._whole.stop()
        if self in _open:
            _open.remove(self)
        return self

    def count_measuring(self, began: float) -> None:
        """Counts this thread's time since `began`, by the performance counter, as that of measuring."""
        self.measuring_s += time.perf_counter() - began

    def seconds(self) -> Optional[float]:
        whole, waited = self._whole.seconds(), self.communication.seconds()
        return None if whole is None or waited is None else whole - waited

    def is_of(self, thread: int) -> bool:
        return self._thread == thread

    def is_on(self, stream: Any) -> bool:
        """Returns whether this work is done on the stream, and so stops while that waits."""
        return not self._is_waiting and self._stream == stream

    def leaves_out(self, wait: Wait, asker: str) -> bool:
        """Returns whether a wait that the named module asks for is not the rank's own work."""
        return (asker.startswith("torch.distributed.fsdp") or wait == "buffers"
                or (wait == "collective" and not self._shared))

    def begin_wait(self, watch: Stopwatch) -> None:
        self._is_waiting = True
        self.communication.add(watch)

    def end_wait(self) -> None:
        self._is_waiting = False


class Total:
    """Sums stretches as they are added. It keeps a stretch until the device has finished it."""

    def __init__(self) -> None:
        self._finished_s = 0.0
        self._others: List[Stretch] = []

    def add(self, stretch: Stretch) -> None:
        self._settle()
        self._others.append(stretch)

    def seconds(self) -> Optional[float]:
        self._settle()
        return None if self._others else self._finished_s

    def _settle(self) -> None:
        while self._others:
            seconds = self._others[0].seconds()
            if seconds is None:
                return
            self._finished_s += seconds
            del self._others[0]


_open: List[OwnWork] = []
_backward_threads: List[int] = []  # Threads that run a watched backward pass.
_installing = threading.Lock()
_installed = False
_warned = False


def warn_unclear() -> None:
    """Logs, once, that seconds are not reported."""
    global _warned
    if not _warned:
        _warned = True
        _LOG.warning("not reported: where compiled autograd runs a backward pass, this rank's own work cannot be told "
                     "from its waiting for other ranks; this is logged once")


def _install() -> None:
    """Makes torch call this module when a backward pass runs and when it waits. Done once, and for good: if nothing
    is measured, a call then costs a look at a list."""
    global _installed
    with _installing:
        if _installed:
            return
        import torch
        from torch import distributed

        torch.autograd.backward = _watching_backward(torch.autograd.backward)
        stream: Any = torch.cuda.Stream
        stream.wait_event = _left_out("stream", stream.wait_event)
        stream.wait_stream = _left_out("stream", stream.wait_stream)
        if distributed.is_available():
            work: Any = distributed.distributed_c10d.Work
            work.wait = _left_out("collective", work.wait)
            distributed._broadcast_coalesced = _left_out("buffers", distributed._broadcast_coalesced)  # noqa: SLF001
        _installed = True


def _left_out(kind: Wait, original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that waits as `original` does, and leaves the wait out of the stretches around it. Of kind
    `stream`, the first argument is the stream that waits, for others it is the current one."""

    @functools.wraps(original)
    def wait(*arguments: Any, **keywords: Any) -> Any:
        stretches = []
        began = 0.0
        if _open:
            began = time.perf_counter()
            # Most waits of a sharded model are those of streams that communicate. No work stops for them, so none pays
            # for the events of a stopwatch, which are recorded on the current stream.
            current = _current_stream()
            if kind != "stream" or arguments[0] == current:
                stretches = [stretch for stretch in _stretches_here() if stretch.is_on(current)]
        if stretches:
            asker = _asker()
            stretches = [stretch for stretch in stretches if stretch.leaves_out(kind, asker)]
        if not stretches:
            return original(*arguments, **keywords)
        watch = Stopwatch()
        for stretch in stretches:
            stretch.begin_wait(watch)
        stretches[0].count_measuring(began)
        try:
            return original(*arguments, **keywords)
        finally:
            began = time.perf_counter()
            watch.stop()
            for stretch in stretches:
                stretch.end_wait()
            stretches[0].count_measuring(began)

    return wait


def _stretches_here() -> Iterator[OwnWork]:
    """Yields the stretches that this thread has begun. On a thread of the autograd engine, also those of the threads
    whose backward pass may run here."""
    thread = threading.get_ident()
    engines = isinstance(threading.current_thread(), threading._DummyThread)  # noqa: SLF001
    for stretch in list(_open):
        if stretch.is_of(thread) or (engines and any(stretch.is_of(other) for other in _backward_threads)):
            yield stretch


def _asker() -> str:
    """Returns the name of the module that makes torch.distributed, or a stream, wait."""
    frame: Optional[FrameType] = sys._getframe(2)  # noqa: SLF001
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("torch.distributed.distributed_c10d", "torch.distributed.c10d_logger",
                                "torch.cuda.streams", "typing_extensions", __name__)):
            return name
        frame = frame.f_back
    return ""


def _watching_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a replacement for torch.autograd.backward, which every Tensor.backward calls. It notifies stretches when
    the pass waits."""

    @functools.wraps(original)
    def backward(tensors: Any, *arguments: Any, **keywords: Any) -> Any:
        thread = threading.get_ident()
        stretches = [stretch for stretch in _open if stretch.is_of(thread)]
        if not stretches or thread in _backward_threads:  # A pass within a pass recomputes a checkpoint.
            return original(tensors, *arguments, **keywords)
        began = time.perf_counter()
        if isinstance(tensors, Iterator):
            tensors = tuple(tensors)
        end = _End(stretches)
        hook = end.follow(tensors)
        _backward_threads.append(thread)
        stretches[0].count_measuring(began)
        try:
            result = original(tensors, *arguments, **keywords)
            end.check()
            return result
        finally:
            began = time.perf_counter()
            _backward_threads.remove(thread)
            if hook is not None:
                hook.remove()
            end.stop()
            stretches[0].count_measuring(began)

    return backward


class _End:
    """The end of a backward pass: from the computation of its last gradient to the return of `backward`."""

    def __init__(self, stretches: Sequence[OwnWork]):
        self._stretches = stretches
        self._watch: Optional[Stopwatch] = None

    def follow(self, tensors: Any) -> Any:
        """Returns the hook that finds the end of the pass that begins with these tensors; None: there is none."""
        import torch

        if _compiles_backward():
            return None
        roots = (tensors,) if isinstance(tensors, torch.Tensor) else tensors
        root = next((root for root in roots if isinstance(root, torch.Tensor) and root.requires_grad), None)
        return None if root is None else root.register_hook(self._queue)

    def check(self) -> None:
        if self._watch is None:
            for stretch in self._stretches:
                stretch.unclear = True

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.stop()
            for stretch in self._stretches:
                stretch.end_wait()

    def _queue(self, _gradient: Any) -> None:
        import torch

        began = time.perf_counter()
        # torch has no public way to run a function at the end of a backward pass's computation.
        torch.autograd.Variable._execution_engine.queue_callback(self._begin)  # noqa: SLF001
        self._stretches[0].count_measuring(began)

    def _begin(self) -> None:
        began = time.perf_counter()
        self._watch = Stopwatch()
        for stretch in self._stretches:
            stretch.begin_wait(self._watch)
        self._stretches[0].count_measuring(began)


def _compiles_backward() -> bool:
    """Returns whether compiled autograd runs backward passes. It has no callbacks at their end, and may wait within
    them."""
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(module, "compiled_autograd_enabled", False))


def several_ranks() -> bool:
    from torch import distributed

    return bool(distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1)


def _current_stream() -> Any:
    """Returns the CUDA stream on which this thread's work runs; None: it runs on the CPU."""
    device = cuda()
    return None if device is None else device.current_stream()
