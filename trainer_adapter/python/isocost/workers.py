"""Threads for the user's functions."""

import concurrent.futures
import os
import queue
import threading
from typing import Any, Callable, List

Future = concurrent.futures.Future


class Workers:
    """As a ThreadPoolExecutor, but of daemon threads: one that is left open at the interpreter's exit
    does not run what is queued first."""

    def __init__(self, name: str):
        self._tasks: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._threads: List[threading.Thread] = [
            threading.Thread(target=self._run, name=f"{name}-{i}", daemon=True) for i in range(os.cpu_count() or 1)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Tasks begin in the order in which they were submitted."""
        future: "Future[Any]" = Future()
        self._tasks.put((future, function, arguments))
        return future

    def close(self) -> None:
        """Cancels what has not begun and waits for what has."""
        while True:
            try:
                future, _function, _arguments = self._tasks.get_nowait()
            except queue.Empty:
                break
            future.cancel()
            future.set_running_or_notify_cancel()  # tells who waits
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            future, function, arguments = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # for who waits for the result
                future.set_exception(error)
