"""Which of a loader's microbatches are trained. The rule is the extension's (trainer_adapter/trained_steps.h)."""

from typing import Optional, Tuple

from isocost import _isocost
from isocost.connection.connection import Connection
from isocost.connection.state import State
from isocost.microbatches.microbatch import Microbatch

_REMEDY = ("measure each microbatch's work (`with loader.timed(microbatch):`), or name the last one that is trained: "
           "state_dict(after=microbatch)")

_Place = Tuple[int, int, int, bool, bool]  # epoch, step, index, last of its step, last of its epoch


class Trained:
    """The microbatches that the loop has reported as trained, and the state that follows. Reports them to the node.

    Attributes:
        whole_steps: whether the iteration hands out steps, which are acknowledged as a whole.
    """

    def __init__(self, connection: Connection):
        self.whole_steps = False
        self._connection = connection
        self.restart(State(0, 0, 0))

    def restart(self, start: State) -> None:
        """Forgets what was handed out: `start` is the first step that is not trained."""
        self._steps = _isocost.TrainedSteps(start.epoch, start.step, start.cost_model_state)
        self._noted: Optional[_Place] = None  # The last microbatch of which the loop said that it is trained.

    def hand_out(self, microbatch: Microbatch) -> None:
        """Records that the loop was given a microbatch."""
        self._steps.hand_out(_place(microbatch), microbatch.cost_model_state)

    def end_epoch(self, epoch: int) -> None:
        """Records that the loop has received the end of an epoch."""
        self._steps.end_epoch(epoch)

    def note(self, microbatch: Microbatch) -> None:
        """Records that a microbatch and all before it are trained. Raises ValueError for one that was not handed out
        since the iterations began again."""
        place = _place(microbatch)
        self._steps.train(place)
        self._noted = place
        if microbatch.last_of_step or not self.whole_steps:
            self._connection.send_trained(microbatch)

    def note_measured(self, microbatch: Microbatch) -> None:
        """Does what `note` does for one whose work was measured. One of an iteration that was left says nothing of the
        one under way."""
        try:
            self.note(microbatch)
        except ValueError:
            return

    @property
    def first_untrained(self) -> Optional[Tuple[int, int]]:
        """Epoch and step of the first step that is not trained, by the loop's last word; None where it has said nothing
        since the iterations began anew."""
        if self._noted is None:
            return None
        epoch, step, _cost_model_state = self._steps.state_after(self._noted)
        return epoch, step

    def state(self, after: Optional[Microbatch]) -> State:
        """Returns the first step that is not trained, or that follows `after`, which is then trained. Raises ValueError
        if the loop has not said what it trained, and for an `after` that was not handed out."""
        try:
            if after is None:
                found = self._steps.state()
            else:
                found = self._steps.state_after(_place(after))
                self.note(after)
        except ValueError as error:
            remedy = f". Remedy: {_REMEDY}" if after is None else ""
            raise ValueError(f"state_dict: {error}{remedy}") from None
        epoch, step, cost_model_state = found
        return self._connection.start._replace(epoch=epoch, step=step, cost_model_state=cost_model_state)


def _place(microbatch: Microbatch) -> _Place:
    return (microbatch.epoch, microbatch.step, microbatch.index, microbatch.last_of_step, microbatch.last_of_epoch)
