"""The loop's side of a loader: iterations, the microbatches that they hand out, and the state of the job."""

import weakref
from typing import Any, List, Optional, Tuple

from isocost.connection.connection import Connection
from isocost.connection.state import State
from isocost.loop.iteration import Iteration, Progress
from isocost.loop.left_iterations import LeftIterations
from isocost.loop.reprofiler import Reprofiler
from isocost.loop.trained import Trained
from isocost.microbatches.microbatch import Microbatch
from isocost.rendezvous.rank_check import RankCheck
from isocost.timing.recorder import Recorder


class TrainingLoop:
    """Hands out the microbatches of one loader. Only the thread that uses the loader calls it.

    Attributes:
        trained: which of them are trained.
        microbatches: number of microbatches that were handed out.
        waited_s: seconds that the loop was blocked.
    """

    def __init__(self, connection: Connection, trained: Trained, recorder: Recorder, ranks: RankCheck, endless: bool,
                 reprofiler: Reprofiler):
        self.trained = trained
        self.microbatches = 0
        self.waited_s = 0.0
        self._connection = connection
        self._recorder = recorder
        self._ranks = ranks
        self._endless = endless
        self._reprofiler = reprofiler
        self._next = State(0, 0, 0)  # The step that is handed out next; data and order are the connection's.
        self._iteration: Optional["weakref.ref[Iteration]"] = None  # The iteration that was begun last.
        self._is_iterating = False  # An iteration has handed out a microbatch, and not its last one.
        self._begun = (0, 0)  # Epoch and step of its first microbatch.
        self._left = LeftIterations(endless)

    @property
    def next_step(self) -> State:
        """The step of the microbatch that is handed out next."""
        epoch, step, cost_model_state = self._next.epoch, self._next.step, self._next.cost_model_state
        return self._connection.start._replace(epoch=epoch, step=step, cost_model_state=cost_model_state)

    def begin(self, loader: Any) -> Iteration:
        """Begins an iteration over microbatches."""
        return self._begin(Iteration(self._take, loader))

    def begin_steps(self, loader: Any) -> Iteration:
        """Begins an iteration over steps."""
        if self._recorder.attached:
            raise ValueError("isocost.steps: the timers of attach measure one microbatch at a time, and a step has "
                             "several: take them off with remove(), and measure each by loader.timed(microbatch)")
        return self._begin(Iteration(self._take_step, loader), whole_steps=True)

    def go_to_epoch(self, epoch: int) -> None:
        """Makes the next iteration this epoch's. A state within this epoch that was loaded keeps its step."""
        if self._next.epoch != epoch or self._is_iterating:
            self._restart(self.next_step._replace(epoch=epoch, step=0))

    def begin_again(self) -> None:
        """Makes the next iteration begin at the job's first step."""
        self.load(self.next_step._replace(epoch=0, step=0))

    def load(self, loaded: State) -> None:
        """Makes the next iteration begin at a state."""
        if loaded != self.next_step or self._is_iterating:
            self._restart(loaded)
        else:
            self.trained.restart(loaded)

    def _begin(self, iteration: Iteration, whole_steps: bool = False) -> Iteration:
        self._connection.check_open()
        active = self._active_iteration()
        if active is not None:
            active.end("another iteration has begun, which has left this one: go on with that one; for two at once "
                       "make a second loader")
        if self._is_iterating:
            at = self._left.next_begins(self._begun, (self._next.epoch, self._next.step), self.trained.first_untrained)
            self._restart(self.next_step._replace(epoch=at[0], step=at[1]))
        self._iteration = weakref.ref(iteration)
        self.trained.whole_steps = whole_steps
        return iteration

    def _restart(self, start: State) -> None:
        """Makes the next connection begin at `start`."""
        self._connection.restart(start)
        self._next = start
        self.trained.restart(start)
        self._is_iterating = False
        iteration = self._active_iteration()
        if iteration is not None:
            iteration.end("set_epoch or load_state_dict has ended this iteration: begin another one")
        self._recorder.clear()

    def _active_iteration(self) -> Optional[Iteration]:
        return None if self._iteration is None else self._iteration()

    def _take(self, iteration: Iteration) -> Any:
        """Returns the next microbatch or the result of `collate` for it. Raises StopIteration at the end."""
        return self._receive(iteration)[1]

    def _take_step(self, iteration: Iteration) -> List[Any]:
        """Returns what `_take` does of each microbatch of the next step. Raises StopIteration at the end."""
        while True:
            microbatch, item = self._receive(iteration, whole_step=True)
            iteration.of_step.append(item)  # They stay there if an interrupt ends the wait for the next one.
            if microbatch.last_of_step:
                step, iteration.of_step = iteration.of_step, []
                return step

    def _receive(self, iteration: Iteration, whole_step: bool = False) -> Tuple[Microbatch, Any]:
        self._ranks.check()
        self._recorder.advance()
        while True:
            microbatch, item = self._connection.receive(whole_step)
            if microbatch is not None:
                break
            # The message that an epoch has ended comes after its last microbatch, where the iteration may have been
            # left, so that the next one receives it first.
            is_of_an_earlier_iteration = item["epoch"] < self._next.epoch and not iteration.has_begun
            self._next = self._next._replace(epoch=max(item["epoch"] + 1, self._next.epoch), step=0)
            self.trained.end_epoch(item["epoch"])
            if item["last_epoch"] or not (self._endless or is_of_an_earlier_iteration):
                self._is_iterating = False
                raise StopIteration
        epoch, step = _following(microbatch)
        cost_model_state = microbatch.cost_model_state or self._next.cost_model_state
        self._next = self._next._replace(epoch=epoch, step=step, cost_model_state=cost_model_state)
        self.trained.hand_out(microbatch)
        if not iteration.has_begun:
            self._begun = (microbatch.epoch, microbatch.step)
        ends = microbatch.last_of_epoch and not self._endless
        self._is_iterating = not ends
        iteration.progress = Progress.AT_END if ends else Progress.UNDER_WAY
        if microbatch.profile_budget_s > 0:
            self._reprofiler.answer(self._connection, microbatch.profile_budget_s)
        self._recorder.begin(microbatch)
        self.microbatches += 1
        self.waited_s += microbatch.waited_s
        return microbatch, item


def _following(microbatch: Microbatch) -> Tuple[int, int]:
    """Returns epoch and step of the microbatch that is handed out after this one."""
    if microbatch.last_of_epoch:
        return microbatch.epoch + 1, 0
    return microbatch.epoch, microbatch.step + 1 if microbatch.last_of_step else microbatch.step
