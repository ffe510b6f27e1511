"""Which fields of an options class its caller named, so that a setting that is given in two places can be refused."""

import dataclasses
import functools
from typing import Any, FrozenSet, Type, TypeVar

_Options = TypeVar("_Options")


def remember_given(options: Type[_Options]) -> Type[_Options]:
    """Decorates a dataclass: its objects remember the fields that they were made with."""
    make = options.__init__
    fields = {field.name: field.default for field in dataclasses.fields(options)}  # type: ignore[arg-type]

    @functools.wraps(make)
    def remember(self: Any, *positional: Any, **named: Any) -> None:
        make(self, *positional, **named)
        given = {*list(fields)[:len(positional)], *named}
        if given == set(fields):  # dataclasses.replace names all of them
            given = {name for name, default in fields.items() if getattr(self, name) != default}
        object.__setattr__(self, "_given", frozenset(given))

    options.__init__ = remember  # type: ignore[method-assign]
    return options


def given_fields(options: Any) -> FrozenSet[str]:
    """Names of the fields that the object was made with, whatever their values; of a copy with other values
    (dataclasses.replace) those that differ from the defaults."""
    given: FrozenSet[str] = options._given  # noqa: SLF001 (set above)
    return given
