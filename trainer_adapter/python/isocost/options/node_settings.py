"""The settings that were given to an embedded node."""

import os
from typing import Any, Dict, List, Mapping, Tuple

# A setting that only rank 0 needs, unless a layout has several stages: whether it measures a new model profile when the
# node asks for one.
_OF_RANK_0 = ("reprofile",)


class NodeSettings:
    """The settings of an embedded node, by the names and in the notation of docs/config.md. Nothing else records what
    was given; the node has defaults for all others."""

    def __init__(self) -> None:
        self._given: Dict[str, Tuple[str, str]] = {}  # By name: the value, and the source.

    def add(self, name: str, value: Any, source: str) -> None:
        """Adds a setting. `source` is what the user wrote, such as "workers=". Raises ValueError if the setting was
        given already."""
        if name in self._given:
            raise ValueError(f"{source} and {self._given[name][1]} say the same thing twice: give one of them")
        self.replace(name, value, source)

    def replace(self, name: str, value: Any, source: str) -> None:
        """Adds a setting, in place of an earlier one of this name."""
        self._given[name] = (_text(value), source)

    def given(self, name: str) -> bool:
        """Returns whether the setting was given, even with the default value."""
        return name in self._given

    def value(self, name: str, otherwise: str = "") -> str:
        """Returns the value that was given, or `otherwise`."""
        return self._given[name][0] if name in self._given else otherwise

    def check_same(self, rank: int, of_rank_0: Mapping[str, str], has_stages: bool) -> None:
        """Raises ValueError if a rank gives a setting that rank 0, whose node serves all ranks, does not have."""
        for name, (value, source) in self._given.items():
            theirs = of_rank_0.get(name)
            if theirs != value and (has_stages or name not in _OF_RANK_0):
                has = "leaves it out" if theirs is None else f"has {theirs!r}"
                raise ValueError(f"{source} makes {name} {value!r} at rank {rank}, and rank 0, whose node serves all "
                                 f"ranks, {has}: give all ranks the same")

    def pairs(self) -> List[Tuple[str, str]]:
        """Returns names and values, for the extension module."""
        return [(name, value) for name, (value, _source) in self._given.items()]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return os.fsdecode(value) if isinstance(value, (os.PathLike, bytes)) else str(value)
