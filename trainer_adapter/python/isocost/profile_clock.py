"""What the profiler reads on a device: seconds, peaks of memory, and whether memory ran out."""

import itertools
import sys
import time
from typing import Any, Callable


class HostClock:
    """Monotonic seconds; memory as torch's CPU allocator tells it to the profiler, where there is torch."""

    def __init__(self) -> None:
        self._other = bytearray(64 << 20)

    def leave_caches(self) -> None:
        """In training other modules run before this one, and between its two halves: it finds its weights and
        activations in memory, not in the caches."""
        half = len(self._other) // 2
        view = memoryview(self._other)
        view[:half] = view[half:]

    def mark(self) -> float:
        return time.perf_counter()

    def between(self, start: Any, end: Any) -> float:
        return end - start

    def settle(self) -> None:
        pass

    def peak_bytes(self, run: Callable[[], Any]) -> int:
        """The most that was allocated while it ran, above what was before."""
        torch = sys.modules.get("torch")
        if torch is None:
            run()
            return 0
        with torch.autograd.profiler.profile(profile_memory=True) as profile:
            run()
        changes = [event.nbytes() for event in profile.kineto_results.events() if event.name() == "[memory]"]
        return max(0, *itertools.accumulate(changes), 0)


class CudaClock:
    """Events on the current stream of the current device."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda

    def leave_caches(self) -> None:
        pass  # weights are many times as large as a GPU's

    def mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        return start.elapsed_time(end) / 1e3

    def settle(self) -> None:
        self._cuda.synchronize()

    def peak_bytes(self, run: Callable[[], Any]) -> int:
        self._cuda.synchronize()
        self._cuda.reset_peak_memory_stats()
        at_rest = self._cuda.memory_allocated()
        run()
        return max(0, self._cuda.max_memory_allocated() - at_rest)


def clock_of_device() -> Any:
    """CUDA's where it is in use by now."""
    torch = sys.modules.get("torch")
    return CudaClock() if torch is not None and torch.cuda.is_initialized() else HostClock()


def is_out_of_memory(error: BaseException) -> bool:
    # torch says so by type on CUDA since 1.13, on the host by words alone.
    text = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and any(words in text for words in ("out of memory", "can't allocate memory", "not enough memory",
                                            "alloc_failed")))  # the last: cuBLAS and cuDNN
