"""Measures one module over a grid of loads."""

import math
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from isocost.profile_clock import clock_of_device, is_out_of_memory
from isocost.profiled_module import Cut, Forward, ProfiledModule

CONTRADICTION = 2  # times the seconds of a load with no less to do: readers of profiles refuse that
TARGET_SPREAD = 0.03  # half of the median's 95 % interval
LEAST_RUNS = 7  # below, the interval of a median is the whole range
FEWEST_RUNS = 3  # once the load's part of the budget is spent
MOST_RUNS = 200
WARM_UP_RUNS = 1  # another one finds the peak of memory
FIRST_LENGTHS = 5
LEAST_BEND = 0.01  # error of interpolation that is not worth another point
CLOSEST = math.log(1.2)  # lengths nearer than this are the same
CUT_SHARE = 0.1  # of a module's budget for each cut, half of it at most


class OutOfMemory(Exception):
    """A load that the device has no room for."""


class Point(NamedTuple):
    length: int
    count: int
    forward_s: float
    backward_s: float
    spread: float
    peak_bytes: int

    def seconds(self) -> float:
        return self.forward_s + self.backward_s

    def contradicts(self, other: "Point") -> bool:
        no_less = (self.count <= other.count and self.length * self.count <= other.length * other.count
                   and self.length**2 * self.count <= other.length**2 * other.count)
        return no_less and self.seconds() > CONTRADICTION * other.seconds()

    def to_json(self) -> Dict[str, Any]:
        return {**load_json(self.length, self.count), "forward_s": self.forward_s,
                "backward_s": self.backward_s, "spread": self.spread, "peak_bytes": self.peak_bytes}


def load_json(length: int, count: int) -> Dict[str, int]:
    return {"sequences": count, "units": length * count, "units_squared": length * length * count}


def relative_spread(values: List[float]) -> float:
    """Half of the 95 % interval of the median, by order statistics, relative to the median."""
    ordered = sorted(values)
    n = len(ordered)
    reach = 1.96 * math.sqrt(n) / 2
    low = ordered[max(0, math.floor(n / 2 - reach))]
    high = ordered[min(n - 1, math.ceil(n / 2 + reach))]
    middle = statistics.median(ordered)
    return (high - low) / 2 / middle if middle > 0 else 0.0


def backward(outputs: Any) -> bool:
    """Differentiates the sum of all outputs; False where nothing requires gradients."""
    from isocost.timing import tensors_of

    tensors = [t for t in tensors_of(outputs) if t.requires_grad] if "torch" in sys.modules else []
    if not tensors:
        return False
    sum(tensor.float().sum() for tensor in tensors).backward()
    return True


class ModuleProfiler:
    """Measures one module until its budget is spent or its curve is known.

    Without a clock: the device's, chosen once the module has run, since it may be what initializes CUDA.
    agree: gives the processes that measure together the first one's value, so that all of them decide alike.
    """

    def __init__(self, name: str, module: ProfiledModule, clock: Any, say: Callable[[str], None],
                 agree: Callable[[Any], Any] = lambda value: value):
        self.name = name
        self.module = module
        self.clock = clock
        self.say = say
        self.agree = agree
        self.points: List[Point] = []
        self.cuts: List[Tuple[Cut, List[Point]]] = []
        self.out_of_memory: Optional[Tuple[int, int]] = None

    def run(self, budget_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        def now() -> float:
            return float(self.agree(clock()))

        for_cuts = budget_s * min(0.5, CUT_SHARE * len(self.module.cuts))
        self._run_whole(now() + budget_s - for_cuts, now)
        for cut in self.module.cuts:
            self._run_cut(cut, for_cuts / len(self.module.cuts), now)

    def _run_whole(self, end: float, now: Callable[[], float]) -> None:
        waiting = self._first_grid()
        if not waiting:
            raise ValueError(f"profile_model: {self.name}: no length fits in most_units = {self.module.most_units}")
        # Half of the budget for the grid, the rest for where the curve bends.
        while waiting:
            length, count = waiting.pop(0)
            left = max(0.0, end - now()) / 2
            self._try(length, count, left / (len(waiting) + 1), now)
        while now() < end:
            length = self._sharpest_bend()
            if length is None:
                break
            counts = sorted({1, max(1, self.module.most_units // length)})
            for count in counts:
                self._try(length, count, max(0.0, end - now()) / 4, now)
            if not any(point.length == length for point in self.points):
                break  # out of memory there
        self._settle_contradictions(now)
        if self.out_of_memory is not None:
            length, count = self.out_of_memory
            if any(p.length * p.count >= length * count and p.length**2 * p.count >= length**2 * count
                   for p in self.points):
                self.out_of_memory = None  # what has run since at no smaller load was no boundary

    def _run_cut(self, cut: Cut, budget_s: float, now: Callable[[], float]) -> None:
        """The largest load of each length of the first grid, as far as the whole module was measured with it."""
        grid = {length: count for length, count in sorted(self._first_grid())}
        loads = [(length, count) for length, count in grid.items()
                 if any((point.length, point.count) == (length, count) for point in self.points)]
        label = f"{self.name}, {cut.tensor} tensor ranks" if cut.tensor > 1 else self.name
        label += f", {cut.layers} layers" if cut.layers is not None else ""
        points = []
        for length, count in loads:
            try:
                points.append(self._measure(cut.prepare, length, count, budget_s / len(loads), now))
            except OutOfMemory:
                self.say(f"{label}: {count} x {length}: out of memory")
                continue
            self._say_point(label, points[-1])
        self.cuts.append((cut, [p for p in points if not any(p.contradicts(other) for other in points)]))

    def _say_point(self, label: str, point: Point) -> None:
        self.say(f"{label}: {point.count} x {point.length}: {1e3 * point.seconds():.3g} ms ± {100 * point.spread:.1f} %")

    def _settle_contradictions(self, now: Callable[[], float]) -> None:
        """Noise only adds: the dearer of two points that contradict each other is measured once more, and goes if it
        still does."""
        for last in (False, True):
            wrong = [point for point in self.points if any(point.contradicts(other) for other in self.points)]
            for point in wrong:
                self.points.remove(point)
                self.say(f"{self.name}: {point.count} x {point.length}: slower than a larger load"
                         + (", left out" if last else ", measured once more"))
                if not last:
                    self._try(point.length, point.count, 0.0, now)

    def _first_grid(self) -> List[Tuple[int, int]]:
        least, most = self.module.lengths
        grid = []
        for i in range(FIRST_LENGTHS):
            length = self._rounded(least * (most / least) ** (i / (FIRST_LENGTHS - 1)))
            fit = self.module.most_units // length
            grid += [(length, count) for count in {1, round(math.sqrt(fit)), fit} if count > 0 and fit > 0]
        return sorted(set(grid), key=lambda load: (load[0] * load[1], load[0]))

    def _rounded(self, length: float) -> int:
        multiple = self.module.multiple
        return max(multiple, round(length / multiple) * multiple)

    def _try(self, length: int, count: int, seconds: float, now: Callable[[], float]) -> None:
        if self.out_of_memory is not None:
            full_length, full_count = self.out_of_memory
            if length >= full_length and length * count >= full_length * full_count:
                return
        try:
            point = self._measure(self.module.prepare, length, count, seconds, now)
        except OutOfMemory as failure:
            if not self.points:
                raise ValueError(f"profile_model: {self.name}: out of memory at its smallest load, {count} x {length}; "
                                 "give shorter lengths or free the device") from failure
            self.say(f"{self.name}: {count} x {length}: out of memory")
            if self.out_of_memory is None or length * count < self.out_of_memory[0] * self.out_of_memory[1]:
                self.out_of_memory = (length, count)
            return
        self.points.append(point)
        self._say_point(self.name, point)

    def _measure(self, prepare: Callable[[List[int]], Forward], length: int, count: int, seconds: float,
                 now: Callable[[], float]) -> Point:
        end = now() + seconds
        try:
            forward = prepare([length] * count)
            if not callable(forward):
                raise TypeError(f"profile_model: {self.name}: prepare(lengths) returned a {type(forward).__name__}; it must "
                                "return the forward pass, as something to call")
            for _ in range(WARM_UP_RUNS):
                backward(forward())
            self.clock = self.clock or clock_of_device()
            peak = self.agree(self.clock.peak_bytes(lambda: self._run_once(forward)))
            runs: List[Tuple[float, float]] = []
            failed = 0
            while len(runs) < FEWEST_RUNS or now() < end and (
                    len(runs) < LEAST_RUNS
                    or len(runs) < MOST_RUNS and relative_spread([sum(run) for run in runs]) > TARGET_SPREAD):
                run = self._run_once(forward)
                if min(run) >= 0 and sum(run) > 0:
                    runs.append(run)
                    continue
                failed += 1  # the clock was set back, say
                if failed > FEWEST_RUNS:
                    raise ValueError(f"profile_model: {self.name}: the clock runs backwards or stands still")
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise OutOfMemory(str(error)) from error
            raise
        return Point(length, count, statistics.median(run[0] for run in runs),
                     statistics.median(run[1] for run in runs), relative_spread([sum(run) for run in runs]), peak)

    def _run_once(self, forward: Forward) -> Tuple[float, float]:
        clock = self.clock
        clock.leave_caches()
        start = clock.mark()
        outputs = forward()
        middle = clock.mark()
        clock.leave_caches()
        second = clock.mark()
        trained = backward(outputs)
        last = clock.mark()
        clock.settle()
        forward_s, backward_s = self.agree(
            (clock.between(start, middle), clock.between(second, last) if trained else 0.0))
        return forward_s, backward_s

    def _sharpest_bend(self) -> Optional[int]:
        """The middle of the interval of lengths in which interpolation is expected to err most."""
        most = {}  # seconds of a sequence where most of them run together
        for point in sorted(self.points, key=lambda point: point.count):
            most[point.length] = math.log(point.seconds() / point.count)
        lengths = sorted(most)
        at = [math.log(length) for length in lengths]
        slopes = [(most[lengths[i + 1]] - most[lengths[i]]) / (at[i + 1] - at[i]) for i in range(len(at) - 1)]
        worst, middle = LEAST_BEND, None
        for i in range(len(slopes)):
            width = at[i + 1] - at[i]
            bend = max(abs(slopes[i] - slopes[j]) for j in (max(0, i - 1), min(len(slopes) - 1, i + 1)))
            candidate = self._rounded(math.exp((at[i] + at[i + 1]) / 2))
            if width < 2 * CLOSEST or candidate in most:
                continue
            if bend * width / 8 > worst:
                worst, middle = bend * width / 8, candidate
        return middle

    def to_json(self) -> Dict[str, Any]:
        document: Dict[str, Any] = {"points": [point.to_json() for point in sorted(self.points)]}
        if self.module.architecture is not None:
            document["architecture"] = self.module.architecture.to_json()
        if self.cuts:
            document["cuts"] = [cut_json(cut, points) for cut, points in self.cuts]
        if self.out_of_memory is not None:
            document["out_of_memory"] = load_json(*self.out_of_memory)
        return document


def cut_json(cut: Cut, points: List[Point]) -> Dict[str, Any]:
    layers = {} if cut.layers is None else {"layers": cut.layers}
    return {"tensor": cut.tensor, **layers, "points": [point.to_json() for point in sorted(points)]}
