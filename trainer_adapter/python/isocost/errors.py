"""The package's exceptions. Each message begins with what to change.

Mistakes of the caller raise Python's own exceptions: ValueError, TypeError, FileNotFoundError, FileExistsError,
TimeoutError. A machine without memory raises MemoryError. All others derive from `IsocostError`.
"""

from typing import Dict, Type


class IsocostError(RuntimeError):
    """The base of the errors below."""


class ShardError(IsocostError):
    """Shards, samples or their index are broken, or too many samples are bad."""


class ProtocolError(IsocostError):
    """Node and trainer do not understand each other: they have different versions, or a message is corrupt."""


class NodeUnavailableError(IsocostError, ConnectionError):
    """The loader node has gone, was restarted, or failed."""


class ClosedError(IsocostError):
    """The loader was closed, or the node was asked to stop."""


_BY_CODE: Dict[str, Type[Exception]] = {
    "invalid_argument": ValueError,
    "not_found": FileNotFoundError,
    "already_exists": FileExistsError,
    "corrupt": ShardError,
    "unsupported": ProtocolError,
    "resource_exhausted": ValueError,  # a limit that was given (memory, microbatch_memory) and cannot be kept
    "unavailable": NodeUnavailableError,
    "deadline_exceeded": TimeoutError,
    "cancelled": ClosedError,
    "io": OSError,
    "internal": IsocostError,
    "out_of_memory": MemoryError,
    "draining": NodeUnavailableError,
}


def from_code(code: str, message: str) -> Exception:
    """Returns the exception for an error code of base/result.h."""
    return _BY_CODE.get(code, IsocostError)(message)
