"""Work that one of the processes that train together does for the others."""

import json
import pathlib
import socket
from typing import Any, Callable

from isocost.rendezvous.store_wait import came

_BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")
# Errors that the other processes raise as the first one does. In place of others they raise RuntimeError.
_ERRORS = {kind.__name__: kind for kind in (ConnectionError, FileNotFoundError, ImportError, OSError, PermissionError,
                                            TimeoutError, ValueError)}


def once(store: Any, key: str, timeout_s: float, work: Callable[[], str]) -> str:
    """Returns the result of `work`, which the first process that asks for `key` calls. The others block until they
    learn it, for up to `timeout_s` seconds. Any process may be the first, so that none waits for one that never comes.

    Args:
        store: of torch.distributed, which all these processes have.
        key: a name for the work that all of them give, and that nothing else in the store has.
    Raises: what `work` raises, at every process; TimeoutError where the first process does not end it in time;
        ConnectionError where the store is lost meanwhile, as when the process that has it ends.
    """
    if store.add(f"{key}/asked", 1) == 1:
        return _told_to_others(store, key, work)
    if not came(store, key, timeout_s):
        raise TimeoutError(f"another process did not end it within {timeout_s:g} s")
    told = json.loads(store.get(key))
    if "error" not in told:
        return str(told["result"])
    kind, message = told["error"]
    if kind in _ERRORS:
        raise _ERRORS[kind](message)
    raise RuntimeError(f"{kind}: {message}" if message else kind)


def _told_to_others(store: Any, key: str, work: Callable[[], str]) -> str:
    try:
        result = work()
    except BaseException as error:  # Also if this process is interrupted: the others need not wait until the end.
        store.set(key, json.dumps({"error": [type(error).__name__, str(error)]}))
        raise
    store.set(key, json.dumps({"result": result}))
    return result


def host() -> str:
    """Returns a name that the processes of one host, or of one container, have in common, and no others."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()}/{boot}"
