"""The versions of frameworks with which the integrations are tested, and the methods of theirs that are overridden."""

import functools
import importlib.metadata
import inspect
import logging
from typing import Any, Callable, Mapping

_LOG = logging.getLogger("isocost")
TESTED = {"accelerate": "1.15", "deepspeed": "0.19", "lightning": "2.6", "transformers": "5.24", "trl": "1.16"}


@functools.lru_cache(maxsize=None)
def note_version(package: str) -> None:
    """Warns, once in a process, of a version of an installed package that is not tested."""
    installed = importlib.metadata.version(package)
    if not installed.startswith(f"{TESTED[package]}."):
        _LOG.warning("isocost is tested with %s %s, and this is %s", package, TESTED[package], installed)


def check_overridden(base: type, overriding: Mapping[str, Callable[..., Any]]) -> None:
    """Raises ImportError where a class lacks a method that is overridden, or its first parameters have other names:
    nothing would call the override, or it would be given something else."""
    for name, ours in overriding.items():
        wanted = [parameter for parameter in _parameters(ours) if parameter != "*"]
        theirs = getattr(base, name, None)
        found = [] if theirs is None else _parameters(theirs)
        if theirs is not None and (found[:len(wanted)] == wanted or "*" in found):
            continue
        has = "has no such method" if theirs is None else f"has {name}({', '.join(found)})"
        tested = ", ".join(f"{package} {version}" for package, version in TESTED.items())
        of = f"{base.__module__}.{base.__qualname__}"
        raise ImportError(f"isocost overrides {name}({', '.join(wanted)}) of {of}, which {has}: install the "
                          f"versions with which it is tested, {tested}")


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the parameters after `self` that are given by position; "*" if it takes any."""
    names = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            names.append(parameter.name)
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names.append("*")
    return names
