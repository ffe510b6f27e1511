"""The largest microbatch that a module is measured with."""

from typing import Callable, NamedTuple

_GROWTH = 4  # most by which seconds or bytes grow where the load doubles; attention reaches it


class Trial(NamedTuple):
    """One run of a microbatch, forward and backward."""

    seconds: float
    peak_bytes: int


def largest_load(run: Callable[[int], Trial], first: int, most: int, seconds: float, room: Callable[[], int]) -> int:
    """Returns the largest load, by doubling it until a run takes too long, or until there may be no memory for the next
    one.

    Args:
        run: runs a microbatch of a number of units.
        first, most: units of the smallest and of the largest load.
        seconds: a run of the largest load should not take longer.
        room: bytes that are left.

    Returns: units, `first` at least.
    """
    units, before = first, 0.0
    while True:
        trial = run(units)
        growth = min(_GROWTH, max(2.0, trial.seconds / before)) if before > 0 else 2.0
        if 2 * units > most or growth * trial.seconds > seconds or _GROWTH * trial.peak_bytes > room():
            return units
        units, before = 2 * units, trial.seconds
