"""The start of the iteration after one that was left before its end: by break, by an exception, by a framework's limit
of batches, or because another one was begun."""

import logging
from typing import Optional, Tuple

_LOG = logging.getLogger("isocost")

_Step = Tuple[int, int]  # epoch and step


class LeftIterations:
    """Decides where the next iteration begins, and warns once of each of two kinds. All ranks decide the same, since
    all leave at the same step.

    A loop that has trained steps of the epoch (docs/decisions/0016-what-counts-as-trained.md) goes on with the next
    epoch: with the same one again it would train on its first samples for ever. One that has trained none has only
    looked at microbatches, and its next iteration starts where this one started, which may be in an earlier epoch."""

    def __init__(self, endless: bool):
        self._endless = endless
        self._has_warned_of_rest = False
        self._has_warned_of_repetition = False

    def next_begins(self, begun: _Step, handed_out: _Step, first_untrained: Optional[_Step]) -> _Step:
        """Returns epoch and step at which the next iteration begins.

        Args:
            begun: the first step of the one that was left.
            handed_out: the step that it would have handed out next.
            first_untrained: the first step that is not trained; None where the loop has not said.
        """
        if first_untrained is not None and first_untrained > begun:
            if self._endless:  # It has no epochs that could be left.
                return first_untrained
            self._warn_of_rest(first_untrained)
            return begun[0] + 1, 0
        if handed_out > (begun[0], begun[1] + 1):
            self._warn_of_repetition(handed_out, begun)
        return begun

    def _warn_of_rest(self, at: _Step) -> None:
        if self._has_warned_of_rest:
            return
        self._has_warned_of_rest = True
        _LOG.warning("epoch %d was left at step %d: the rest of it is not trained on, and the next iteration is epoch "
                     "%d's. To go on with the rest, call loader.load_state_dict(loader.state_dict()) first", *at,
                     at[0] + 1)

    def _warn_of_repetition(self, at: _Step, again: _Step) -> None:
        if self._has_warned_of_repetition:
            return
        self._has_warned_of_repetition = True
        _LOG.warning("epoch %d was left at step %d, and the loop has not said that it trained a step: the next "
                     "iteration begins at epoch %d, step %d again. If it trained them, measure each microbatch (`with "
                     "loader.timed(microbatch):`), or call loader.set_epoch(%d) for the next epoch", *at, *again,
                     at[0] + 1)
