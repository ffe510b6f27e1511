"""Stretches of time, measured without making the host wait for the device."""

import time
from typing import Any, Optional, Protocol


class Stretch(Protocol):
    """A stretch of work whose seconds are known once the device has finished it."""

    def seconds(self) -> Optional[float]: ...


class Stopwatch:
    """One stretch of work, measured by a monotonic clock, or by CUDA events on the current stream.

    `stop` ends it. `seconds` returns None until the device has passed the second event.
    """

    def __init__(self) -> None:
        self._cuda = cuda()
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


def cuda() -> Any:
    """Returns torch.cuda if this process uses it, else None."""
    import torch

    return torch.cuda if torch.cuda.is_initialized() else None
