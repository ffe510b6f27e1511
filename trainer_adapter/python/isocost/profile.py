"""Measures a model's modules over a grid of loads, for the cost model: see docs/profile.md."""

import json
import math
import os
import platform
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

MODULES = ("vision", "audio", "llm")
CONTRADICTION = 2  # times the seconds of a load with no less to do: readers of profiles refuse that
TARGET_SPREAD = 0.03  # half of the median's 95 % interval
LEAST_RUNS = 7  # below, the interval of a median is the whole range
FEWEST_RUNS = 3  # once the load's part of the budget is spent
MOST_RUNS = 200
WARM_UP_RUNS = 2
FIRST_LENGTHS = 5
LEAST_BEND = 0.01  # error of interpolation that is not worth another point
CLOSEST = math.log(1.2)  # lengths nearer than this are the same

Forward = Callable[[], Any]


class Architecture(NamedTuple):
    """A transformer's dimensions.

    name: for people.
    layers, width, heads, mlp: of its blocks; heads are attention heads.
    key_value_width: below `width` where query heads share keys and values; None: `width`.
    gated: three MLP matrices instead of two.
    embedding_parameters: of the patch embedding, or of the token embedding and the output head.
    head_flop_per_unit: forward FLOP of the output head for one token.
    """

    name: str
    layers: int
    width: int
    heads: int
    mlp: int
    key_value_width: Optional[int] = None
    gated: bool = False
    embedding_parameters: int = 0
    head_flop_per_unit: int = 0

    def to_json(self) -> Dict[str, Any]:
        return {**self._asdict(), "key_value_width": self.key_value_width or self.width}


class ProfiledModule(NamedTuple):
    """One module to measure.

    prepare: called with the lengths of packed sequences (patches of each image, positions of each
        audio window, tokens of each sample); makes the inputs and returns a callable without
        arguments that runs the module on them. What that returns is differentiated if it is a
        tensor, or a sequence or dict of tensors, that requires gradients.
    lengths: the shortest and the longest sequence.
    most_units: the most patches, positions or tokens in one microbatch.
    multiple: lengths are multiples of this.
    architecture: the module's dimensions, which memory and layouts follow from (docs/profile.md); None: not said.
    """

    prepare: Callable[[List[int]], Forward]
    lengths: Tuple[int, int]
    most_units: int
    multiple: int = 1
    architecture: Optional[Architecture] = None


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


class HostClock:
    """Monotonic seconds; memory is not measured."""

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

    def reset_peak(self) -> None:
        pass

    def peak_bytes(self) -> int:
        return 0


class CudaClock:
    """Events on the current stream of the current device."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda
        self._at_rest = 0

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

    def reset_peak(self) -> None:
        self._cuda.synchronize()
        self._cuda.reset_peak_memory_stats()
        self._at_rest = self._cuda.memory_allocated()

    def peak_bytes(self) -> int:
        return max(0, self._cuda.max_memory_allocated() - self._at_rest)


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


def backward(outputs: Any) -> bool:
    """Differentiates the sum of all outputs; False where nothing requires gradients."""
    from isocost.timing import _tensors

    tensors = [t for t in _tensors(outputs) if t.requires_grad] if "torch" in sys.modules else []
    if not tensors:
        return False
    sum(tensor.float().sum() for tensor in tensors).backward()
    return True


class ModuleProfiler:
    """Measures one module until its budget is spent or its curve is known.

    Without a clock: the device's, chosen once the module has run, since it may be what initializes CUDA.
    """

    def __init__(self, name: str, module: ProfiledModule, clock: Any, say: Callable[[str], None]):
        self.name = name
        self.module = module
        self.clock = clock
        self.say = say
        self.points: List[Point] = []
        self.out_of_memory: Optional[Tuple[int, int]] = None

    def run(self, budget_s: float, now: Callable[[], float] = time.monotonic) -> None:
        end = now() + budget_s
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
            point = self._measure(length, count, seconds, now)
        except OutOfMemory as failure:
            if not self.points:
                raise ValueError(f"profile_model: {self.name}: out of memory at its smallest load, {count} x {length}; "
                                 "give shorter lengths or free the device") from failure
            self.say(f"{self.name}: {count} x {length}: out of memory")
            if self.out_of_memory is None or length * count < self.out_of_memory[0] * self.out_of_memory[1]:
                self.out_of_memory = (length, count)
            return
        self.points.append(point)
        self.say(f"{self.name}: {count} x {length}: {1e3 * point.seconds():.3g} ms "
                 f"± {100 * point.spread:.1f} %")

    def _measure(self, length: int, count: int, seconds: float, now: Callable[[], float]) -> Point:
        end = now() + seconds
        try:
            forward = self.module.prepare([length] * count)
            for _ in range(WARM_UP_RUNS):
                backward(forward())
            self.clock = self.clock or clock_of_device()
            self.clock.reset_peak()
            runs = [self._run_once(forward)]
            peak = self.clock.peak_bytes()
            while len(runs) < FEWEST_RUNS or now() < end and (
                    len(runs) < LEAST_RUNS
                    or len(runs) < MOST_RUNS and relative_spread([sum(run) for run in runs]) > TARGET_SPREAD):
                runs.append(self._run_once(forward))
        except (MemoryError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise OutOfMemory(str(error)) from error
            raise
        if min(sum(run) for run in runs) <= 0:
            raise ValueError(f"profile_model: {self.name}: the clock ran backwards or stood still")
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
        return clock.between(start, middle), clock.between(second, last) if trained else 0.0

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
        if self.out_of_memory is not None:
            document["out_of_memory"] = load_json(*self.out_of_memory)
        return document


def check(modules: Mapping[str, ProfiledModule], budget_s: float) -> None:
    if not modules:
        raise ValueError("profile_model: name a module, e.g. llm=isocost.ProfiledModule(...)")
    for name, module in modules.items():
        if name not in MODULES:
            raise ValueError(f"profile_model: there is no module '{name}'; there are {', '.join(MODULES)}")
        least, most = module.lengths
        if not 1 <= least <= most:
            raise ValueError(f"profile_model: {name}: lengths are {module.lengths}; give (shortest, longest)")
        if module.multiple < 1:
            raise ValueError(f"profile_model: {name}: multiple is {module.multiple}; it must be at least 1")
    if not budget_s > 0:
        raise ValueError(f"profile_model: budget_s is {budget_s}; it must be above 0")


def hardware() -> str:
    """What this process computes on, by name: a GPU where CUDA is in use by now."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return str(torch.cuda.get_device_name())
    return platform.processor() or platform.machine()


def versions() -> Dict[str, str]:
    found = {"python": platform.python_version()}
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)
        if torch.cuda.is_initialized():
            found["cuda"] = str(torch.version.cuda)
    return found


def profile_model(budget_s: float = 300.0, file: Optional[str] = None, dtype: str = "", progress: bool = True,
                  **modules: ProfiledModule) -> Dict[str, Any]:
    """Measures forward and backward seconds and peak memory of a model's modules, for the cost model.

    Each module runs on microbatches of equally long sequences over a grid of lengths and counts, so
    that attention (which grows with the length at the same number of tokens) and the rest are told
    apart. A load is repeated until the 95 % interval of its median is within 3 %; further lengths
    are measured where the curve bends. What runs out of memory is recorded as the boundary. CUDA
    events are used where the module has initialized CUDA, a monotonic clock otherwise (peak_bytes
    is 0 then). Where the budget is short, points are kept with the spread that they have.

    Args:
        budget_s: seconds for all modules together; every point is run at least 5 times regardless.
        file: where the profile is written; None: nowhere.
        dtype: name of the type that the model computes in, for people: "bfloat16".
        progress: a line on stderr for each point.
        **modules: `vision`, `audio`, `llm`: a ProfiledModule each. Those left out cost nothing.

    Returns: the profile, as docs/profile.md describes it.
    Raises: ValueError for arguments that cannot be, and where the smallest load runs out of memory.

    Example:
        >>> def prepare(lengths):
        ...     ids = torch.randint(1000, (sum(lengths),), device="cuda")
        ...     return lambda: llm(ids, lengths)
        >>> isocost.profile_model(file="profile.json",
        ...                       llm=isocost.ProfiledModule(prepare, (64, 8192), most_units=16384))
    """
    check(modules, budget_s)
    say = (lambda line: print(line, file=sys.stderr, flush=True)) if progress else (lambda line: None)
    nothing = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}
    measured: Dict[str, Any] = {name: nothing for name in MODULES}
    for name, module in modules.items():
        profiler = ModuleProfiler(name, module, None, say)
        profiler.run(budget_s / len(modules))
        measured[name] = profiler.to_json()
    document = {"version": 1, "unit": "seconds", "source": "isocost.profile_model", "hardware": hardware(),
                "dtype": dtype, "versions": versions(), "modules": measured}
    if file is not None:
        write(document, file)
    return document


def write(document: Dict[str, Any], file: str) -> None:
    """All or nothing, so that a profile is never half of one."""
    scratch = f"{file}.{os.getpid()}.tmp"
    with open(scratch, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=2)
        out.write("\n")
    os.replace(scratch, file)
