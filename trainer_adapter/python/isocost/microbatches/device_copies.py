"""Copies of tensors to a device, concurrent with the device's computation."""
import collections
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple


class DeviceCopies:
    """Copies tensors to one CUDA device on a stream of its own.

    Tensors in pinned memory, such as a block of shared memory that is registered with the CUDA runtime, are copied from
    there; others through PyTorch's own pinned memory. A source is kept until it has been copied, since a block's next
    microbatch would otherwise overwrite it. Thread-safe.

    Args:
        device: torch.device of type "cuda", with an index.
        cuda: torch.cuda, or what stands in for it in a test.
    """

    def __init__(self, device: Any, cuda: Any):
        self._device = device
        self._cuda = cuda
        self._stream = cuda.Stream(device)
        # Events, and the tensors that are kept until each. No lock is needed: a deque's ends are safe to use from
        # several threads.
        self._under_way: Deque[Tuple[Any, List[Any]]] = collections.deque()

    def copy(self, tensors: Sequence[Any], pin: Optional[Callable[[], bool]] = None) -> List[Any]:
        """Returns the CPU tensors on the device, in the same order. The stream that is current now waits for them; the
        calling thread does not. `pin` is called first, with the device current: it registers their memory."""
        self.forget_done()
        if not tensors:
            return []
        if pin is not None and not all(tensor.is_pinned() for tensor in tensors):
            with self._cuda.device(self._device):
                pin()  # If pinning fails, the tensors are copied to pinned memory.
        sources = [tensor if tensor.is_pinned() else tensor.pin_memory() for tensor in tensors]
        current = self._cuda.current_stream(self._device)
        with self._cuda.stream(self._stream):
            try:
                copies = [source.to(self._device, non_blocking=True) for source in sources]
            except BaseException:
                self._stream.synchronize()  # Copies that have begun still read their sources.
                raise
            done = self._stream.record_event()
        self._under_way.append((done, sources))
        current.wait_event(done)
        for copy in copies:
            copy.record_stream(current)  # Its memory is not reused before the current stream has finished with it.
        return copies

    def forget_done(self) -> None:
        """Drops the sources that have been copied."""
        while self._under_way:
            try:
                done, sources = self._under_way.popleft()
            except IndexError:  # Another thread took it.
                return
            if not done.query():
                self._under_way.appendleft((done, sources))
                return


_BY_DEVICE: Dict[Any, DeviceCopies] = {}  # One object for the process: a copy may outlast the thread that began it.


def moved_tensors(tensors: Sequence[Any], device: Any, non_blocking: bool = True,
                  pin: Optional[Callable[[], bool]] = None) -> List[Any]:
    """Returns the torch tensors on the device, in the same order. `pin` is that of DeviceCopies.copy."""
    import torch

    target = torch.device(device)
    if target.type != "cuda" or not non_blocking:
        return [tensor.to(target, non_blocking=non_blocking) for tensor in tensors]
    if target.index is None:
        target = torch.device("cuda", torch.cuda.current_device())
    if target not in _BY_DEVICE:
        _BY_DEVICE.setdefault(target, DeviceCopies(target, torch.cuda))
    copies = iter(_BY_DEVICE[target].copy([tensor for tensor in tensors if tensor.device.type == "cpu"], pin))
    return [next(copies) if tensor.device.type == "cpu" else tensor.to(target, non_blocking=True)
            for tensor in tensors]
