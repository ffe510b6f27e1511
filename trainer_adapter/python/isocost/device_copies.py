"""Copies of tensors to a device, beside what the device computes."""
import collections
import threading
from typing import Any, Deque, Dict, List, Sequence, Tuple


class DeviceCopies:
    """Copies tensors to one CUDA device on a stream of its own.

    What lies in pinned memory, as in a block of shared memory that is registered with the CUDA runtime, is copied from
    there; anything else through PyTorch's own pinned memory. A source is kept until it has been copied: a block's next
    microbatch would otherwise overwrite it. Not thread-safe.

    Args:
        device: torch.device of type "cuda", with an index.
        cuda: torch.cuda, or what stands in for it in a test.
    """

    def __init__(self, device: Any, cuda: Any):
        self._device = device
        self._cuda = cuda
        self._stream = cuda.Stream(device)
        self._under_way: Deque[Tuple[Any, List[Any]]] = collections.deque()  # An event, and what it is awaited for.

    def copy(self, tensors: Sequence[Any]) -> List[Any]:
        """The CPU tensors on the device, in the same order. The stream that is current now waits for them; the calling
        thread does not."""
        while self._under_way and self._under_way[0][0].query():
            self._under_way.popleft()
        if not tensors:
            return []
        sources = [tensor if tensor.is_pinned() else tensor.pin_memory() for tensor in tensors]
        current = self._cuda.current_stream(self._device)
        with self._cuda.stream(self._stream):
            copies = [source.to(self._device, non_blocking=True) for source in sources]
            done = self._stream.record_event()
        current.wait_event(done)
        for copy in copies:
            copy.record_stream(current)  # Its memory is not used again before what the current stream does with it.
        self._under_way.append((done, sources))
        return copies


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.by_device: Dict[Any, DeviceCopies] = {}


_OF_THREAD = _OfThread()


def moved_tensors(tensors: Sequence[Any], device: Any, non_blocking: bool = True) -> List[Any]:
    """The torch tensors on the device, in the same order."""
    import torch

    target = torch.device(device)
    if target.type != "cuda" or not non_blocking:
        return [tensor.to(target, non_blocking=non_blocking) for tensor in tensors]
    if target.index is None:
        target = torch.device("cuda", torch.cuda.current_device())
    if target not in _OF_THREAD.by_device:
        _OF_THREAD.by_device[target] = DeviceCopies(target, torch.cuda)
    copies = iter(_OF_THREAD.by_device[target].copy([tensor for tensor in tensors if tensor.device.type == "cpu"]))
    return [next(copies) if tensor.device.type == "cpu" else tensor.to(target, non_blocking=True)
            for tensor in tensors]
