"""Measured seconds on their way to the cost model."""

from typing import Dict, List, Mapping, Sequence, Union

from isocost import _isocost
from isocost.base.modules import MODULES
from isocost.microbatches.microbatch import Microbatch

NOT_MEASURED = _isocost.not_measured


def by_module(microbatch: Microbatch, seconds: Union[float, Mapping[str, float]]) -> List[float]:
    """Returns seconds in the order of MODULES, NOT_MEASURED for a module without a measurement. Raises ValueError for
    impossible seconds, and for an unknown module."""
    if not isinstance(seconds, Mapping):
        spread = _spread(microbatch, MODULES, checked_seconds("seconds", seconds))
        return [spread.get(module, NOT_MEASURED) for module in MODULES]
    result = dict.fromkeys(MODULES, NOT_MEASURED)
    for name, value in seconds.items():
        if name == "encoder":
            result.update(_spread(microbatch, MODULES[:-1], checked_seconds(name, value)))
        elif name in result:
            result[name] = checked_seconds(name, value)
        else:
            raise ValueError(f"report: '{name}' is no module; there are {', '.join(MODULES)}, and encoder")
    return list(result.values())


def _spread(microbatch: Microbatch, modules: Sequence[str], seconds: float) -> Dict[str, float]:
    """Divides one measured sum among the modules that have work, in their predicted proportions."""
    predicted = {module: microbatch.predicted[module] for module in modules if microbatch.predicted[module] > 0}
    total = sum(predicted.values())
    return {module: seconds * value / total for module, value in predicted.items()}


def checked_seconds(name: str, seconds: float) -> float:
    """Returns the seconds. Raises ValueError for seconds that no module can take for a microbatch."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not (
            seconds == 0 or _isocost.is_module_time(seconds)):
        raise ValueError(f"report: {name} = {seconds!r} s is no time that a microbatch takes")
    return float(seconds)
