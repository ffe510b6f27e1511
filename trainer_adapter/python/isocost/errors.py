"""What can go wrong, as exceptions. Each message begins with what to change.

Errors of the caller are Python's own: ValueError, FileNotFoundError, FileExistsError, TimeoutError.
The rest derive from `IsocostError`.
"""


class IsocostError(RuntimeError):
    """The base of the errors below."""


class ShardError(IsocostError):
    """Shards, samples or their index are broken, or too many samples are bad."""


class ProtocolError(IsocostError):
    """Node and trainer do not understand each other: another version, or corrupt messages."""


class NodeUnavailableError(IsocostError, ConnectionError):
    """The loader node has gone, was restarted, or failed."""


class ClosedError(IsocostError):
    """The loader was closed, or the node was asked to stop."""


_BY_CODE = {
    "invalid_argument": ValueError,
    "not_found": FileNotFoundError,
    "already_exists": FileExistsError,
    "corrupt": ShardError,
    "unsupported": ProtocolError,
    "resource_exhausted": ShardError,
    "unavailable": NodeUnavailableError,
    "deadline_exceeded": TimeoutError,
    "cancelled": ClosedError,
    "io": OSError,
    "internal": IsocostError,
}


def from_code(code: str, message: str) -> Exception:
    """The exception for an error code of base/result.h."""
    return _BY_CODE.get(code, IsocostError)(message)
