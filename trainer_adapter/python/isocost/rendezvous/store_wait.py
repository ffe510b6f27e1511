"""Waiting for what another process says through a store of torch.distributed."""

import datetime
import time
from typing import Any


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
