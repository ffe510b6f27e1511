"""Keeps two processes, or two threads of one, from writing into one directory."""

import fcntl
import os
from types import TracebackType
from typing import Optional, Type


class DirectoryLock:
    """A lock on a directory, held within a `with` block by a file in it. The file is gone when the block ends; where
    the process is killed the file stays, and locks nothing.

    Args:
        directory: what to lock.
        name: the file's name.

    Raises, on entry: BlockingIOError that names the process that has the lock, and OSError where the file cannot be
        made.
    """

    def __init__(self, directory: str, name: str):
        self._file = os.path.join(directory, name)
        self._descriptor = -1

    def __enter__(self) -> "DirectoryLock":
        while True:
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                # A lock of the open file: a lock by lockf would belong to the process, and lock out no other thread.
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
                os.close(self._descriptor)
                if not isinstance(error, (BlockingIOError, PermissionError)):
                    raise
                raise BlockingIOError(f"{self._file}: {f'process {holder}' if holder else 'another process'} writes "
                                      "here: wait until it has ended, or end it") from None
            if self._is_there():
                os.truncate(self._descriptor, 0)
                os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
                return self
            os.close(self._descriptor)  # Its holder removed the file between open and lock.

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        os.unlink(self._file)
        os.close(self._descriptor)

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._file))
        except FileNotFoundError:
            return False
