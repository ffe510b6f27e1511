"""Where a rank's own backward pass ends, and its waiting for other ranks begins."""

import threading
from typing import Any, List

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
        self._thread = threading.get_ident()
        self._inside = False
        self._backward: Any = None

    def start(self) -> None:
        import torch

        self._backward = torch.autograd.backward
        torch.autograd.backward = self._watched

    def stop(self) -> None:
        import torch

        torch.autograd.backward = self._backward

    def _watched(self, tensors: Any, *arguments: Any, **keywords: Any) -> Any:
        import torch

        # A pass within a pass is that of a checkpoint's computation.
        if self._inside or threading.get_ident() != self._thread:
            return self._backward(tensors, *arguments, **keywords)
        roots = [tensors] if isinstance(tensors, torch.Tensor) else tensors
        hooks = [root.register_hook(self._begin) for root in roots
                 if isinstance(root, torch.Tensor) and root.requires_grad][:1]
        begun = len(self.waits)
        self._inside = True
        try:
            return self._backward(tensors, *arguments, **keywords)
        finally:
            self._inside = False
            for hook in hooks:
                hook.remove()
            for wait in self.waits[begun:]:
                wait.stop()

    def _begin(self, _gradient: Any) -> None:
        import torch

        # torch has no public way to run a function at the end of what a backward pass computes.
        torch.autograd.Variable._execution_engine.queue_callback(self._end)  # noqa: SLF001

    def _end(self) -> None:
        self.waits.append(Stopwatch())
