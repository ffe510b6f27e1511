"""Fields of an options class that its caller named, so that a setting that is given in two places can be refused."""

import dataclasses
import difflib
import functools
from typing import Any, FrozenSet, Iterable, List, Type, TypeVar

_Options = TypeVar("_Options")

# The remedy for a setting that another loader, or the model's processor, has by this name.
ELSEWHERE = {
    name: f"the size to which a model's pictures are scaled is isocost.DataLoader(image_size={{{name!r}: ...}}), and "
          "max_decoded_pixels of isocost.NodeOptions is the size beyond which a file is refused"
    for name in ("max_pixels", "min_pixels")
}


def remember_given(options: Type[_Options]) -> Type[_Options]:
    """Decorates a dataclass: its objects remember the fields that they were made with, and an unknown field raises
    TypeError with the names of all fields."""
    make = options.__init__
    fields = {field.name: field.default for field in dataclasses.fields(options)}  # type: ignore[arg-type]

    @functools.wraps(make)
    def remember(self: Any, *positional: Any, **named: Any) -> None:
        _refuse_unknown(options.__name__, named, list(fields))
        make(self, *positional, **named)
        given = {*list(fields)[:len(positional)], *named}
        if given == set(fields):  # dataclasses.replace names all of them
            given = {name for name, default in fields.items() if getattr(self, name) != default}
        object.__setattr__(self, "_given", frozenset(given))

    options.__init__ = remember  # type: ignore[method-assign]
    return options


def _refuse_unknown(options: str, named: Iterable[str], known: List[str]) -> None:
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            if name in ELSEWHERE:
                raise TypeError(f"isocost.{options} has no setting '{name}': {ELSEWHERE[name]}")
            remedy = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
            raise TypeError(f"isocost.{options} has no setting '{name}': {remedy}")


def given_fields(options: Any) -> FrozenSet[str]:
    """Returns the names of the fields that the object was made with, whatever their values; for a copy with other
    values (dataclasses.replace), of the fields that differ from the defaults."""
    given: FrozenSet[str] = options._given  # noqa: SLF001 (set above)
    return given
