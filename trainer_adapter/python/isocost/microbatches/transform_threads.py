"""Threads for the user's functions."""

import os
import queue
import threading
from typing import Any, Callable, List


class Result:
    """A value that another thread sets, for one waiter. An interrupt may end a wait at any point, and the wait can be
    repeated, which Python's conditions do not promise."""

    __slots__ = ("_set", "_is_set", "_value", "_error")

    def __init__(self) -> None:
        self._set = threading.Lock()
        self._set.acquire()
        self._is_set = False
        self._value: Any = None
        self._error: Any = None

    def set(self, value: Any) -> None:
        self._value = value
        self._finish()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._finish()

    def get(self) -> Any:
        """Blocks until the value is there, and returns it. Raises the stored error, each time it is called."""
        while not self._is_set:
            self._set.acquire(timeout=0.1)  # A signal that comes just before a wait does not end it.
        if self._error is not None:
            raise self._error
        return self._value

    def _finish(self) -> None:
        self._is_set = True
        self._set.release()


class Workers:
    """Threads that run tasks, one for each core. They are daemon threads: where they are left open at the interpreter's
    exit, what is queued does not run first."""

    def __init__(self, name: str):
        self._name = name
        self._tasks: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._threads: List[threading.Thread] = []

    def start(self) -> None:
        for i in range(os.cpu_count() or 1):
            self._threads.append(threading.Thread(target=self._run, name=f"{self._name}-{i}", daemon=True))
            self._threads[-1].start()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Result:
        """Queues a task and returns its result. Tasks begin in the order in which they were submitted."""
        result = Result()
        self._tasks.put((result, function, arguments))
        return result

    def close(self) -> None:
        """Cancels tasks that have not begun, and blocks until those that have are done."""
        while True:
            try:
                result, _function, _arguments = self._tasks.get_nowait()
            except queue.Empty:
                break
            result.fail(RuntimeError("the loader is closed"))
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            result, function, arguments = task
            try:
                result.set(function(*arguments))
            except BaseException as error:  # The waiter for the result receives it.
                result.fail(error)
