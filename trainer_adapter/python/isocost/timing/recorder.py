"""Collects the measured seconds of a loader's microbatches, and reports them once the device has finished them."""

import logging
import reprlib
import time
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Tuple, Union

from isocost.base.modules import MODULES
from isocost.microbatches.microbatch import Microbatch
from isocost.timing.own_work import OwnWork, several_ranks, warn_unclear
from isocost.timing.reports import NOT_MEASURED, by_module, checked_seconds
from isocost.timing.stopwatch import Stretch
from isocost.timing.timers import Measured, ModuleTimers, Stretches, measuring_of

_LOG = logging.getLogger("isocost")

Pass = Literal["forward", "backward"]
# Sends one report: the microbatch, its seconds in the order of MODULES, the seconds of its forward passes, and those
# that measuring took since the last report. -1 means seconds that were not measured.
Send = Callable[[Microbatch, List[float], float, float], None]
# Records that a microbatch is trained.
NoteTrained = Callable[[Microbatch], None]


# The names under which wrappers of torch keep the module that they wrap.
_WRAPPED = ("_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_orig_mod")


class Recorder:
    """The measured seconds of one loader. Only the thread that uses the loader calls it.

    Attributes:
        current: the microbatch that is in use, whose seconds attached modules measure; None: none is.
        sent: number of reports that were sent.
        communication_s: seconds of waiting for communication that they leave out.
        measuring_s: seconds that measuring and reporting took.
        shared: whether other processes train on the same microbatches.
    """

    def __init__(self, chunks: int, send: Send, note_trained: NoteTrained, shared: bool = False):
        self.current: Optional[Microbatch] = None
        self.sent = 0
        self.communication_s = 0.0
        self.measuring_s = 0.0
        self.shared = shared
        self._chunks = chunks  # Chunks of the model on this stage, each with a backward pass of its own.
        self._send = send
        self._note_trained = note_trained
        self._timers: Optional[ModuleTimers] = None
        self._waiting: List[Tuple[Microbatch, Stretches]] = []
        self._step: Optional[Tuple[int, int]] = None  # The step of the passes below.
        # By the microbatch's index. None: a pass that was not measured.
        self._passes: Dict[int, Dict[Pass, List[Optional[OwnWork]]]] = {}
        self._told_s = 0.0  # The part of `measuring_s` that reports have said.
        self._has_passed_over = False  # Whether work of the step in use would have been measured, if it were wanted.
        self._unmeasured: Optional[Microbatch] = None  # The last one of such a step, which was not reported yet.

    def add(self, microbatch: Microbatch, stretches: Stretches) -> None:
        """Reports the stretches as soon as the device has finished them and those that were added before."""
        if stretches:
            self.measuring_s += stretches.measuring_s
            self._waiting.append((microbatch, stretches))

    def add_work(self, microbatch: Microbatch, works: Sequence[OwnWork], forward: Sequence[OwnWork] = ()) -> None:
        """Reports the sum of these, as `add` does, unless they cannot be separated from waiting for other ranks. The
        microbatch is then trained."""
        unclear = any(work.unclear for work in works) and several_ranks()
        self._add(microbatch, unclear, Stretches(whole=works, forward=forward, communication=_communication(works),
                                                 measuring_s=measuring_of(works)))
        self._note_trained(microbatch)

    def pass_over(self, microbatch: Microbatch, is_trained: bool = True) -> None:
        """Does what `add_work` does in a step whose seconds are not wanted: the microbatch is trained, unless something
        else says so. How long the loop waited for the step's data is reported with its last microbatch."""
        self._has_passed_over = True
        if is_trained:
            self._note_trained(microbatch)

    def check_pass(self, part: Pass, microbatch: Microbatch) -> None:
        """Raises ValueError for a backward pass without a forward pass."""
        at = (microbatch.epoch, microbatch.step)
        if part == "backward" and (at != self._step or microbatch.index not in self._passes):
            raise ValueError(f"timed: no forward pass of {microbatch!r} was measured whose backward pass this would "
                             f"be: measure it with part=\"forward\" first; each is reported after {self._chunks} of "
                             "part=\"backward\", and dropped where the next step begins before")

    def add_pass(self, part: Pass, microbatch: Microbatch, watch: Optional[OwnWork]) -> None:
        """Adds a pass; None in a step whose seconds are not wanted. A microbatch is complete with the backward pass of
        its last chunk."""
        at = (microbatch.epoch, microbatch.step)
        if self._step != at:  # Passes without a backward pass by now (evaluation) are not reported.
            self._passes.clear()
            self._step = at
        passes = self._passes.setdefault(microbatch.index, {"forward": [], "backward": []})
        passes[part].append(watch)
        if len(passes["backward"]) == self._chunks:
            del self._passes[microbatch.index]
            forward = [work for work in passes["forward"] if work is not None]
            backward = [work for work in passes["backward"] if work is not None]
            if backward:
                self.add_work(microbatch, forward + backward, forward)
            else:
                self.pass_over(microbatch)

    def attach(self, timers: ModuleTimers) -> None:
        """Makes these timers measure the microbatch in use. Removes those that were attached before."""
        if self._timers is not None:
            self._timers.remove()
        self._timers = timers
        if self.current is not None:
            self._begin_timers(self.current)

    @property
    def attached(self) -> bool:
        """Whether modules are attached."""
        return self._timers is not None and self._timers.attached

    def begin(self, microbatch: Microbatch) -> None:
        """Begins the use of a microbatch."""
        self.current = microbatch
        if self.attached:
            self._begin_timers(microbatch)

    def _begin_timers(self, microbatch: Microbatch) -> None:
        if self._timers is not None and microbatch.seconds_wanted:
            self._timers.begin_microbatch()
        else:
            self._has_passed_over = True

    def advance(self) -> None:
        """Ends the microbatch in use, and reports what the device has finished."""
        current, self.current = self.current, None
        if self._timers is not None and current is not None:
            self._take_timers(current, self._timers)
        if self._has_passed_over and current is not None and current.last_of_step:
            self._has_passed_over = False
            if not current.seconds_wanted:
                self._unmeasured = current
        if self._waiting and not self._send_finished():
            return
        if self._unmeasured is not None:
            unmeasured, self._unmeasured = self._unmeasured, None
            self._send(unmeasured, [NOT_MEASURED] * len(MODULES), NOT_MEASURED, NOT_MEASURED)

    def _take_timers(self, microbatch: Microbatch, timers: ModuleTimers) -> None:
        modules, all_of_it = timers.take()
        if modules and all_of_it is not None:
            works = [work for of_module in modules.values() for work in of_module]
            self._add(microbatch, all_of_it.unclear,
                      Stretches(modules=dict(modules), communication=_communication([all_of_it]),
                                measuring_s=measuring_of([*works, all_of_it])))

    def _send_finished(self) -> bool:
        """Reports what the device has finished. Returns whether that is all."""
        began = time.perf_counter()
        while self._waiting:
            microbatch, stretches = self._waiting[0]
            measured = stretches.measured()
            if measured is None:
                break
            self._waiting.pop(0)
            self.send(microbatch, measured)
        self.measuring_s += time.perf_counter() - began
        return not self._waiting

    def clear(self) -> None:
        """Drops what has not been reported."""
        if self._timers is not None:
            self._timers.take()
        self.current = None
        self._waiting.clear()
        self._passes.clear()
        self._unmeasured = None
        self._has_passed_over = False

    def send(self, microbatch: Microbatch, measured: Measured) -> None:
        """Reports seconds. Impossible ones, for example after a stop in a debugger, are logged and do not end
        training."""
        seconds = measured.modules if measured.whole is None else measured.whole
        try:
            spread = by_module(microbatch, seconds)
            forward = NOT_MEASURED if measured.forward is None else measured.forward
            if forward >= sum(value for value in spread if value > 0):  # The microbatch had no work, for example.
                forward = NOT_MEASURED
            self._count(microbatch, spread, forward, self.measuring_s - self._told_s)
        except ValueError as error:
            _LOG.warning("not reported: %s", error)
            return
        self._told_s = self.measuring_s
        self.communication_s += measured.communication

    def send_seconds(self, microbatch: Microbatch, seconds: Union[float, Mapping[str, float]],
               forward: Optional[float]) -> None:
        """Sends seconds that the caller has measured; see DataLoader.report. Those that are not wanted are checked and
        not sent."""
        if self.current is None:
            raise ValueError(f"report: {microbatch!r} is stale: no microbatch is in use; report it before the next one "
                             "is asked for")
        current = (self.current.epoch, self.current.step)
        at = (microbatch.epoch, microbatch.step)
        if at > current or at < (current[0] - (current[1] == 0), max(0, current[1] - 1)):
            raise ValueError(f"report: {microbatch!r} is stale: the loader is at epoch {current[0]}, step "
                             f"{current[1]}; report a microbatch before the next step ends")
        spread = by_module(microbatch, seconds)
        forward_s = NOT_MEASURED if forward is None else checked_seconds("forward", forward)
        if microbatch.seconds_wanted:
            self._count(microbatch, spread, forward_s, NOT_MEASURED)
        else:
            self._has_passed_over = True

    def _add(self, microbatch: Microbatch, unclear: bool, stretches: Stretches) -> None:
        if unclear:
            warn_unclear()
        else:
            self.add(microbatch, stretches)

    def _count(self, microbatch: Microbatch, seconds: List[float], forward: float, measuring: float) -> None:
        self._send(microbatch, seconds, forward, measuring)
        self.sent += 1


def _communication(works: Sequence[OwnWork]) -> List[Stretch]:
    return [work.communication for work in works]


class NotTimed:
    """The context manager of DataLoader.timed in a step whose seconds are not wanted."""

    __slots__ = ("_microbatch", "_part", "_recorder")

    def __init__(self, recorder: Recorder, microbatch: Microbatch, part: Optional[Pass]):
        self._recorder = recorder
        self._microbatch = microbatch
        self._part = part

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, _exception: Any, _traceback: Any) -> None:
        if kind is not None:
            return
        if self._part is None:
            self._recorder.pass_over(self._microbatch)
        else:
            self._recorder.add_pass(self._part, self._microbatch, None)


class Timed:
    """The context manager of DataLoader.timed."""

    def __init__(self, recorder: Recorder, microbatch: Microbatch, part: Optional[Pass]):
        self._recorder = recorder
        self._microbatch = microbatch
        self._part = part
        self._work: Optional[OwnWork] = None

    def __enter__(self) -> None:
        began = time.perf_counter()
        self._work = OwnWork(self._recorder.shared)
        self._work.count_measuring(began)

    def __exit__(self, kind: Any, *_exception: Any) -> None:
        work = self._work
        if work is None:
            return
        work.stop()
        began = time.perf_counter()
        if kind is not None:
            return
        if self._part is None:
            self._recorder.add_work(self._microbatch, [work])
        else:
            self._recorder.add_pass(self._part, self._microbatch, work)
        self._recorder.measuring_s += time.perf_counter() - began


def module_timers(model: Any, modules: Mapping[str, str], active: Callable[[], bool], shared: bool) -> ModuleTimers:
    """Hooks on the named submodules of a torch.nn.Module. Raises TypeError if the model is none,
    ValueError for names that it does not have."""
    if not modules:
        raise ValueError("attach: name a submodule, e.g. llm='language_model'")
    if not hasattr(model, "named_modules"):
        raise TypeError(f"attach: model = {reprlib.repr(model)}: must be a torch.nn.Module")
    known: Dict[str, Any] = {}
    for path, part in getattr(model, "module", model).named_modules():
        known.setdefault(".".join(name for name in path.split(".") if name not in _WRAPPED), part)
    for name, path in modules.items():
        if path not in known:
            raise ValueError(f"attach: {name}='{path}': the model has no such submodule; it has: "
                             + ", ".join(sorted(part for part in known if part and "." not in part)))
    timers = ModuleTimers(active, shared)
    for name, path in modules.items():
        timers.watch(known[path], name)
    return timers


