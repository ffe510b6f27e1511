"""Waiting for what another process says through a store of torch.distributed."""

import contextlib
import datetime
import threading
import time
from typing import Any, Iterator

_TICKS = 4  # signs of work within a time-out


def came(store: Any, key: str, timeout_s: float) -> bool:
    """Returns whether `key` is in the store within `timeout_s` seconds, for which it blocks at most. Raises
    ConnectionError where the store is lost meanwhile, as when the process that has it ends."""
    began = time.monotonic()
    try:
        store.wait([key], datetime.timedelta(seconds=timeout_s))
    except RuntimeError as error:  # of either kind, by names that differ between versions of torch
        if time.monotonic() - began < timeout_s - 0.001:  # It waits for whole milliseconds.
            raise ConnectionError(f"the store of torch.distributed was lost: {error}") from error
        return False
    return True


@contextlib.contextmanager
def at_work(store: Any, key: str, timeout_s: float) -> Iterator[None]:
    """Tells those that wait by `came_from_work` for `key`, within a `with` block, that this process works on it."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(timeout_s / _TICKS):
            try:
                store.add(_work(key), 1)
            except RuntimeError:  # The store is lost, which this process notices when it needs it.
                return

    thread = threading.Thread(target=tell, name="isocost at work", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def came_from_work(store: Any, key: str, timeout_s: float) -> bool:
    """Returns whether `key` comes into the store. Blocks as long as a process is at work on it, and `timeout_s` seconds
    longer at most. Raises what `came` raises."""
    seen = 0
    while not came(store, key, timeout_s):
        works = store.add(_work(key), 0)
        if works == seen:
            return False
        seen = works
    return True


def _work(key: str) -> str:
    return f"{key}/work"
