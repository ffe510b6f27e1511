"""What a caller of the profiler says of a module."""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

MODULES = ("vision", "audio", "llm")

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


class Cut(NamedTuple):
    """A module cut otherwise, to be measured beside the whole: what layouts split follows from it.

    prepare: as ProfiledModule's, for the part that this process runs.
    tensor: ranks that share its layers; each runs its part in a process of its own, and what they say to each other
        is measured with it (see profile_model's `group`).
    layers: how many of its layers are run; None: all.
    """

    prepare: Callable[[List[int]], Forward]
    tensor: int = 1
    layers: Optional[int] = None


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
    cuts: the same module on several tensor ranks, or with fewer layers; measured at the largest loads.
    """

    prepare: Callable[[List[int]], Forward]
    lengths: Tuple[int, int]
    most_units: int
    multiple: int = 1
    architecture: Optional[Architecture] = None
    cuts: Sequence[Cut] = ()


def check(modules: Mapping[str, ProfiledModule], budget_s: float) -> None:
    if not modules:
        raise ValueError("profile_model: name a module, e.g. llm=isocost.ProfiledModule(...)")
    for name, module in modules.items():
        if name not in MODULES:
            raise ValueError(f"profile_model: there is no module '{name}'; there are {', '.join(MODULES)}")
        if not isinstance(module, ProfiledModule):
            raise TypeError(f"profile_model: {name} is a {type(module).__name__}; give isocost.ProfiledModule(prepare, "
                            "lengths, most_units=...)")
        least, most = module.lengths
        if not 1 <= least <= most:
            raise ValueError(f"profile_model: {name}: lengths are {module.lengths}; give (shortest, longest)")
        if module.multiple < 1:
            raise ValueError(f"profile_model: {name}: multiple is {module.multiple}; it must be at least 1")
        if module.multiple > most:
            raise ValueError(f"profile_model: {name}: multiple is {module.multiple}; no length up to {most} is one")
        if module.most_units < most:
            raise ValueError(f"profile_model: {name}: most_units is {module.most_units}, below the longest sequence, {most}")
        check_cuts(name, module)
    if isinstance(budget_s, bool) or not isinstance(budget_s, (int, float)) or not budget_s > 0:
        raise ValueError(f"profile_model: budget_s is {budget_s}; it must be above 0")


def check_cuts(name: str, module: ProfiledModule) -> None:
    seen = set()
    for cut in module.cuts:
        if cut.tensor < 1 or cut.tensor == 1 and cut.layers is None:
            raise ValueError(f"profile_model: {name}: a cut has tensor = {cut.tensor}, layers = {cut.layers}: give more "
                             "than one tensor rank, or fewer layers")
        if cut.layers is not None and (module.architecture is None or not 0 < cut.layers < module.architecture.layers):
            raise ValueError(f"profile_model: {name}: a cut has layers = {cut.layers}: give the module's architecture, "
                             "and fewer layers than it has")
        if (cut.tensor, cut.layers) in seen:
            raise ValueError(f"profile_model: {name}: two cuts have tensor = {cut.tensor}, layers = {cut.layers}")
        seen.add((cut.tensor, cut.layers))
