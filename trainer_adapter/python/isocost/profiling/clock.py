"""Measurements of the profiler on a device: seconds, peak memory, and whether memory ran out."""

import itertools
import sys
import time
from typing import Any, Callable, Protocol

from isocost import _isocost


class Clock(Protocol):
    """Measures runs on one kind of device."""

    def overwrite_caches(self) -> None:
        """Overwrites the device's caches if they could hold what the module reads. Called before each half of a
        run."""

    def mark(self) -> Any:
        """Returns the present moment, in the order of the device's work."""

    def between(self, start: Any, end: Any) -> float:
        """Returns the seconds between two marks that `settle` has passed."""

    def settle(self) -> None:
        """Blocks until the device has passed all marks."""

    def peak_bytes(self, run: Callable[[], Any]) -> int:
        """Runs, and returns the most bytes that were allocated meanwhile, above those allocated before."""


class HostClock:
    """Monotonic seconds. Peak memory is what torch's CPU allocator reports to torch's profiler; 0 without torch."""

    def __init__(self) -> None:
        self._other = bytearray(_isocost.overwritten_cache_bytes)

    def overwrite_caches(self) -> None:
        half = len(self._other) // 2
        view = memoryview(self._other)
        view[:half] = view[half:]

    def mark(self) -> float:
        return time.perf_counter()

    def between(self, start: float, end: float) -> float:
        return end - start

    def settle(self) -> None:
        pass

    def peak_bytes(self, run: Callable[[], Any]) -> int:
        torch = sys.modules.get("torch")
        if torch is None:
            run()
            return 0
        with torch.autograd.profiler.profile(profile_memory=True) as profile:
            run()
        changes = [event.nbytes() for event in profile.kineto_results.events() if event.name() == "[memory]"]
        return int(max(0, *itertools.accumulate(changes), 0))


class CudaClock:
    """CUDA events on the current stream of the current device."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda

    def overwrite_caches(self) -> None:
        pass  # a module's weights are many times as large as a GPU's caches

    def mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3

    def settle(self) -> None:
        self._cuda.synchronize()

    def peak_bytes(self, run: Callable[[], Any]) -> int:
        self._cuda.synchronize()
        self._cuda.reset_peak_memory_stats()
        at_rest = self._cuda.memory_allocated()
        run()
        return max(0, int(self._cuda.max_memory_allocated()) - int(at_rest))


def clock_of_device() -> Clock:
    """Returns a CudaClock if this process has initialized CUDA, else a HostClock."""
    torch = sys.modules.get("torch")
    return CudaClock() if torch is not None and torch.cuda.is_initialized() else HostClock()


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether this exception means that memory ran out. For the host, torch says so only in the message."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _isocost.says_out_of_memory(str(error)))
