"""Messages of the C++ parts, for the logger "isocost"."""

import logging

_LOG = logging.getLogger("isocost")
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


def log(level: int, text: str) -> None:
    """Logs a message. `level` counts from 0: debug, info, warning, error."""
    _LOG.log(_LEVELS[min(level, len(_LEVELS) - 1)], text)
