"""Where a rank's own backward pass ends, and its waiting for other ranks begins."""

import functools
import threading
from typing import Any, Callable, Iterator, List, Optional

from isocost.timing import Stopwatch


class BackwardWatch:
    """Watches the backward passes that the calling thread runs between `start` and `stop`.

    DistributedDataParallel reduces gradients while a backward pass computes them, and `backward` returns when they are
    reduced: when the slowest rank is done. What the rank computes itself ends before that: the autograd engine then
    runs the callbacks that were queued during the pass, in their order. The first one is queued here, when the pass
    begins; DDP's, which waits, is queued when the last gradient is computed.

    Attributes:
        waits: the stretch of each pass from there to the end of `backward`.
    """

    def __init__(self) -> None:
        self.waits: List[Stopwatch] = []
        self._outer: Optional["BackwardWatch"] = None
        self._inside = False

    def start(self) -> None:
        _install()
        self._outer = getattr(_of_thread, "watch", None)
        _of_thread.watch = self

    def stop(self) -> None:
        _of_thread.watch = self._outer

    def run(self, backward: Callable[..., Any], tensors: Any, *arguments: Any, **keywords: Any) -> Any:
        """Calls `backward`, which is torch.autograd.backward, and watches it."""
        import torch

        if self._inside:  # A pass within a pass is that of a checkpoint's computation.
            return backward(tensors, *arguments, **keywords)
        if isinstance(tensors, Iterator):
            tensors = tuple(tensors)
        roots = (tensors,) if isinstance(tensors, torch.Tensor) else tensors
        root = next((root for root in roots if isinstance(root, torch.Tensor) and root.requires_grad), None)
        hook = root.register_hook(self._begin) if root is not None else None
        begun = len(self.waits)
        self._inside = True
        try:
            return backward(tensors, *arguments, **keywords)
        finally:
            self._inside = False
            if hook is not None:
                hook.remove()
            for wait in self.waits[begun:]:
                wait.stop()

    def _begin(self, _gradient: Any) -> None:
        import torch

        # torch has no public way to run a function at the end of what a backward pass computes.
        torch.autograd.Variable._execution_engine.queue_callback(self._end)  # noqa: SLF001

    def _end(self) -> None:
        wait = Stopwatch()
        self.waits.append(wait)
        if self._outer is not None:
            self._outer.waits.append(wait)


_of_thread = threading.local()  # its watch, if any
_installing = threading.Lock()
_installed = False


def _install() -> None:
    """Has torch.autograd.backward, which every Tensor.backward calls, ask for the thread's watch. Once, and for good:
    it then costs a look at a variable."""
    global _installed
    import torch

    with _installing:
        if _installed:
            return
        _installed = True
        original = torch.autograd.backward

        @functools.wraps(original)
        def watched(tensors: Any, *arguments: Any, **keywords: Any) -> Any:
            watch = getattr(_of_thread, "watch", None)
            if watch is None:
                return original(tensors, *arguments, **keywords)
            return watch.run(original, tensors, *arguments, **keywords)

        torch.autograd.backward = watched
