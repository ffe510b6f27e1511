"""Descriptions of the modules that the profiler measures."""

import math
import numbers
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from isocost.base.modules import MODULES

Forward = Callable[[], Any]


class Architecture(NamedTuple):
    """A transformer's dimensions.

    name: name for people.
    layers, width, heads, mlp: dimensions of its blocks; heads are attention heads.
    key_value_width: below `width` where query heads share keys and values; None: `width`.
    gated: whether the MLP has three matrices instead of two.
    embedding_parameters: parameters of the patch embedding, or of the token embedding and the output head.
    head_flop_per_unit: forward FLOP of the output head for one token.
    experts: experts of a layer whose MLP is a mixture; `mlp` is then the width of as many parameters. 0: a dense MLP.
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
    experts: int = 0

    def to_json(self) -> Dict[str, Any]:
        """Returns the `architecture` of a model profile, as docs/model_profile.md describes it."""
        json = {**self._asdict(), "key_value_width": self.key_value_width or self.width}
        if not self.experts:
            del json["experts"]
        return json


class Cut(NamedTuple):
    """A part of a module, measured in addition to the whole: layouts use it to predict how a module splits.

    prepare: as ProfiledModule's, for the part that this process runs.
    tensor: number of ranks that share its layers. Each runs its part in a process of its own, and their communication
        is measured with it (see profile_model's `group`).
    layers: number of its layers that run; None: all.
    """

    prepare: Callable[[List[int]], Forward]
    tensor: int = 1
    layers: Optional[int] = None


class ProfiledModule(NamedTuple):
    """One module to measure.

    prepare: called with the lengths of packed sequences (patches of each image, positions of each audio window, tokens
        of each sample). It makes the inputs and returns a callable without arguments that runs the module on them. The
        result of that is differentiated if it is a tensor, or a sequence or dict of tensors, that requires gradients.
    lengths: the shortest and the longest sequence.
    most_units: patches, positions or tokens of the largest microbatch.
    multiple: every length is a multiple of this.
    architecture: the module's dimensions, from which memory and layouts follow (docs/model_profile.md); None: unknown.
    cuts: the same module on several tensor ranks, or with fewer layers; measured at the largest loads.
    """

    prepare: Callable[[List[int]], Forward]
    lengths: Tuple[int, int]
    most_units: int
    multiple: int = 1
    architecture: Optional[Architecture] = None
    cuts: Sequence[Cut] = ()


def check(function: str, kind: Type[Any], arguments: str, modules: Mapping[str, Any], budget_s: float) -> None:
    """Checks what a function is to measure: names and types, and the budget. The profiler's method checks the values.

    Args:
        function: for messages.
        kind: ProfiledModule or another description with its `lengths`, `most_units` and `multiple`.
        arguments: those that `kind` needs, for messages.
    Raises: ValueError, TypeError, naming the function and the module.
    """
    if not modules:
        raise ValueError(f"{function}: name a module, e.g. llm=isocost.{kind.__name__}(...)")
    for name, module in modules.items():
        if name not in MODULES:
            raise ValueError(f"{function}: there is no module '{name}'; there are {', '.join(MODULES)}")
        if not isinstance(module, kind):
            raise TypeError(f"{function}: {name} is a {type(module).__name__}; give "
                            f"isocost.{kind.__name__}({arguments})")
        lengths, most_units, multiple = module.lengths, module.most_units, module.multiple
        if len(lengths) != 2 or not all(isinstance(value, numbers.Integral)
                                        for value in (*lengths, most_units, multiple)):
            raise TypeError(f"{function}: {name}: lengths are {lengths}, most_units is {most_units}, multiple is "
                            f"{multiple}; give whole numbers, and lengths as (shortest, longest)")
    if isinstance(budget_s, bool) or not isinstance(budget_s, (int, float)) or not 0 < budget_s < math.inf:
        raise ValueError(f"{function}: budget_s is {budget_s}; it must be above 0, and finite")
