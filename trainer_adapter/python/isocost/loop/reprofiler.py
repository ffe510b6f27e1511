"""Measures a new model profile, or a stage's part of one, when the node asks for it."""

import inspect
import json
import logging
import time
from typing import Any, Callable, Mapping, Optional, Tuple

from isocost.connection.connection import Connection

_LOG = logging.getLogger("isocost")

Reprofile = Callable[..., Mapping[str, Any]]  # Takes `budget_s` where it has a parameter of this name.

_MOST_BYTES = 1 << 20  # of a profile
_MOST_CHARACTERS = 1000  # of a reason that the node is told


class Reprofiler:
    """Answers the node's questions for a profile. Only the thread that uses the loader calls it.

    Args:
        reprofile: the user's function; None: there is none.
        answers: whether the node expects an answer of this process, or of the group that it receives with.
    """

    def __init__(self, reprofile: Optional[Reprofile], answers: bool):
        self._reprofile = reprofile
        self._answers = answers
        self._takes_budget = reprofile is not None and _has_budget(reprofile)

    def answer(self, connection: Connection, budget_s: float) -> None:
        """Measures, and sends the answer over the connection. A failure is logged, told to the node, and ends nothing:
        correction continues with the present profile."""
        # Processes that share a microbatch share layers, so that all of them must measure, or none.
        if not all(connection.gather(self._reprofile is not None)):
            if self._answers:
                _LOG.warning("model drift detected, and the node asks for a new model profile: give reprofile= to all "
                             "ranks to measure one")
                connection.client().send_profile("", 0.0, "not all of its ranks have reprofile=")
            return
        begin = time.perf_counter()
        profile, failure = self._measure(budget_s)
        outcomes = connection.gather((time.perf_counter() - begin, failure))
        if self._answers:
            failure = next((of_one for _took_s, of_one in outcomes if of_one), "")
            took_s = max(took_s for took_s, _failure in outcomes)
            connection.client().send_profile("" if failure else profile, took_s, failure)

    def _measure(self, budget_s: float) -> Tuple[str, str]:
        """Returns the profile as JSON and "", or "" and why there is none."""
        assert self._reprofile is not None
        try:
            measured = self._reprofile(budget_s=budget_s) if self._takes_budget else self._reprofile()
            profile = json.dumps(measured)
            if len(profile) > _MOST_BYTES:  # JSON of ASCII characters
                raise ValueError(f"the profile has {len(profile):,} bytes, of at most {_MOST_BYTES:,}: measure fewer "
                                 "loads")
            return profile, ""
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            _LOG.warning("reprofile= failed, the old profile stays: %s", failure)
            words = " ".join(failure.split())[:_MOST_CHARACTERS]
            return "", words.encode("utf-8", "replace").decode("utf-8")


def _has_budget(function: Reprofile) -> bool:
    try:
        return "budget_s" in inspect.signature(function).parameters
    except ValueError:  # Some built-in functions have no signature.
        return False
