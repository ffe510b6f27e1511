"""One iteration over a loader: its state. When it ends is the decision of `training_loop.py`."""

import enum
from typing import Any, Callable, List, Optional


class Progress(enum.Enum):
    NEW = enum.auto()  # It has handed out nothing.
    UNDER_WAY = enum.auto()
    AT_END = enum.auto()  # It has handed out the last microbatch.
    ENDED = enum.auto()


class Iteration:
    """One iteration.

    Attributes:
        of_step: where the iteration is one over steps, what was received of the step that is not complete yet.
    """

    def __init__(self, take: Callable[["Iteration"], Any], loader: Any):
        """`loader` is kept as long as the iteration, and would close otherwise: a loop may be all that has it."""
        self.progress = Progress.NEW
        self.of_step: List[Any] = []
        self._take = take
        self._loader = loader
        self._reason: Optional[str] = None  # The reason why it ended before its last microbatch.

    @property
    def is_under_way(self) -> bool:
        return self.progress is Progress.UNDER_WAY

    @property
    def has_begun(self) -> bool:
        return self.progress is not Progress.NEW

    def end(self, reason: str) -> None:
        """Ends an iteration that is not continued. A loop that continues it anyway gets `reason` as its error."""
        if self.progress in (Progress.NEW, Progress.UNDER_WAY):
            self._reason = reason
        self.progress = Progress.ENDED

    def __iter__(self) -> "Iteration":
        return self

    def __next__(self) -> Any:
        if self._reason is not None:
            raise RuntimeError(self._reason)
        if self.progress is Progress.ENDED:
            raise StopIteration
        try:
            return self._take(self)
        except StopIteration:
            self.progress = Progress.ENDED
            raise
