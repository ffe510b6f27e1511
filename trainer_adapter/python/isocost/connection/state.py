"""The state of a training job: one small state for the whole job."""

import json
from typing import Any, Dict, Mapping, NamedTuple

from isocost import _isocost


class State(NamedTuple):
    """The first step that is not trained yet. trainer_adapter/state.cc decides how it is written.

    Attributes:
        cursor: the fingerprint of what steps are counted in: data set, seed, shuffle, global batch size, tail. A node
            that has another one refuses the state.
        epoch, step: int, from 0.
        cost_model_state: what the node sent last of its cost model; opaque.
        mixture: the node's mixture of data sets, a JSON text; "" without one.
        version: that of the saved state which the cursor comes from; the present one for a node's cursor.
    """

    cursor: int
    epoch: int
    step: int
    cost_model_state: bytes = b""
    mixture: str = ""
    version: int = _isocost.state_version

    def with_order_of(self, welcome: Mapping[str, Any]) -> "State":
        """Returns this state as one of the node's data set and order of samples."""
        return self._replace(cursor=welcome["cursor"], mixture=welcome["mixture"], version=_isocost.state_version)

    def to_dict(self) -> Dict[str, Any]:
        # The keys are always the same: torch.distributed.checkpoint loads those that a fresh loader's state has.
        written: Dict[str, Any] = json.loads(_isocost.state_text(*self))
        return written

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> "State":
        """Raises ValueError that names the field."""
        if not isinstance(state, Mapping) or "version" not in state:
            raise ValueError("load_state_dict: this is no state of an isocost.DataLoader (it has no 'version')")
        try:
            return State(*_isocost.read_state(json.dumps(dict(state))))
        except (TypeError, ValueError, RecursionError) as error:  # TypeError: a value that JSON does not have
            raise ValueError(f"load_state_dict: {error}") from None
