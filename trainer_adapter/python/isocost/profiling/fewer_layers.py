"""Measurements of a module with fewer layers than it has, extrapolated to all of them."""

import bisect
import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

_Point = Dict[str, Any]
_TERMS = ("sequences", "units", "units_squared")


def layers_that_fit(layers: int, period: int, bytes_of: Callable[[int], int], room: int) -> Optional[int]:
    """Returns the largest number of layers whose weights leave half of the memory to activations: a multiple of two
    periods, so that half of it can be measured, too. All layers if they fit; None if not even two periods do.

    Args:
        layers: of the whole module.
        period: see Skeleton.period.
        bytes_of: bytes of weights and gradients with a number of layers.
        room: bytes that are free.
    """
    if 2 * bytes_of(layers) <= room:
        return layers
    fitting = (count for count in range(layers - 1, 0, -1) if count % (2 * period) == 0 and 2 * bytes_of(count) <= room)
    return next(fitting, None)


def extrapolate(measured: Dict[str, Any], some: int, layers: int) -> Dict[str, Any]:
    """Returns a module's part of a model profile for all of its layers.

    A layer's share of a load's seconds, and of its bytes, follows from the difference to the cut, which was measured
    with the largest load of several lengths; between these it is interpolated over the logarithm of the length.

    Args:
        measured: with `some` layers, and with a cut of fewer. The points with `some` layers become a cut, too.
        some: layers that ran.
        layers: of the whole module.

    Noise in the shares may make a small load slower than a larger one: such points are left out, as the profiler does
    (costmodel/profile.h: contradicts).
    """
    (cut,) = measured["cuts"]
    seconds = _shares(measured["points"], cut, some, _seconds)
    peaks = _shares(measured["points"], cut, some, lambda point: float(point["peak_bytes"]))

    def whole(point: _Point) -> _Point:
        longer = 1 + (layers - some) * seconds(_length(point))
        larger = 1 + (layers - some) * peaks(_length(point))
        return {**point, "forward_s": point["forward_s"] * longer, "backward_s": point["backward_s"] * longer,
                "peak_bytes": round(point["peak_bytes"] * larger)}

    document = {key: value for key, value in measured.items() if key != "out_of_memory"}
    document["points"] = _without_contradicted([whole(point) for point in measured["points"]])
    document["cuts"] = [cut, {"tensor": 1, "layers": some, "points": measured["points"]}]
    return document


def _without_contradicted(points: List[_Point]) -> List[_Point]:
    def contradicted(point: _Point) -> bool:
        return any(_seconds(point) > 2 * _seconds(more) and all(point[key] <= more[key] for key in _TERMS)
                   for more in points)

    return [point for point in points if not contradicted(point)]


def _shares(points: Sequence[_Point], cut: _Point, some: int,
            value: Callable[[_Point], float]) -> Callable[[float], float]:
    """Returns the share of one layer in a value of the whole, as a function of the length."""
    whole = {_load(point): value(point) for point in points}
    known: List[Tuple[float, float]] = []
    for point in cut["points"]:
        of_all = whole.get(_load(point), 0)
        if of_all > 0:
            share = (1 - value(point) / of_all) / (some - cut["layers"])
            known.append((math.log(_length(point)), min(1 / some, max(0.0, share))))
    known.sort()
    lengths = [length for length, _share in known]

    def at(length: float) -> float:
        if not known:
            return 1 / some  # Nothing outside the layers was measured.
        x = math.log(length)
        i = bisect.bisect(lengths, x)
        if i in (0, len(known)):
            return known[min(i, len(known) - 1)][1]
        (x0, y0), (x1, y1) = known[i - 1], known[i]
        return y0 + (y1 - y0) * (x - x0) / (x1 - x0)

    return at


def _seconds(point: _Point) -> float:
    return float(point["forward_s"] + point["backward_s"])


def _length(point: _Point) -> float:
    return float(point["units"] / point["sequences"])


def _load(point: _Point) -> Tuple[int, int]:
    return point["sequences"], point["units"]
