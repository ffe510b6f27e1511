"""The state of a training job: one small state for the whole job."""

import base64
from typing import Any, Dict, Mapping, NamedTuple

VERSION = 2  # 1 named the state of the cost model "learnt".
_KEYS = frozenset({"version", "cursor", "epoch", "step", "cost_model_state"})


class State(NamedTuple):
    """The first step that is not trained yet.

    Attributes:
        cursor: the fingerprint of what steps are counted in: data set, seed, shuffle, global batch size, tail. A node
            that has another one refuses the state.
        epoch, step: int, from 0.
        cost_model_state: what the node sent last of its cost model; opaque.
    """

    cursor: int
    epoch: int
    step: int
    cost_model_state: bytes = b""

    def to_dict(self) -> Dict[str, Any]:
        # The keys are always the same: torch.distributed.checkpoint loads those that a fresh loader's state has.
        return {"version": VERSION, "cursor": f"{self.cursor:016x}", "epoch": self.epoch, "step": self.step,
                "cost_model_state": base64.b64encode(self.cost_model_state).decode("ascii")}

    @staticmethod
    def from_dict(state: Mapping[str, Any]) -> "State":
        """Raises ValueError that names the field."""
        if not isinstance(state, Mapping) or "version" not in state:
            raise ValueError("load_state_dict: this is no state of an isocost.DataLoader (it has no 'version')")
        if state["version"] != VERSION:
            raise ValueError(_other_version(state["version"]))
        unknown = sorted(str(name) for name in state if name not in _KEYS)
        if unknown:
            raise ValueError(f"load_state_dict: this Isocost does not know the state's {', '.join(unknown)}: load the "
                             "state with the Isocost that wrote it, or leave these keys out if you added them")
        try:
            result = State(int(state["cursor"], 16), _whole(state["epoch"]), _whole(state["step"]),
                           base64.b64decode(state.get("cost_model_state", ""), validate=True))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"load_state_dict: the state is damaged: {error!r}") from None
        if not (0 <= result.cursor < 2**64 and 0 <= result.epoch < 2**32 and 0 <= result.step < 2**32):
            raise ValueError(f"load_state_dict: the state is damaged: cursor {result.cursor:x}, epoch {result.epoch} "
                             f"or step {result.step} is out of range")
        return result


def _other_version(version: Any) -> str:
    reads = f"load_state_dict: this Isocost reads states of version {VERSION}, and this one has version {version!r}"
    if version == 1:
        return (f"{reads}: take 'cursor', 'epoch' and 'step' alone and set 'version' to {VERSION}; training goes on at "
                "the same step, and correction of the cost model begins anew")
    return f"{reads}: load it with the Isocost that wrote it"


def _whole(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{number!r} is no whole number")
    return int(number)
