"""A directory for the socket of a node in this process."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time

_PREFIX = "isocost-node-"
_LOCK = "lock"
_MOST_BYTES = 80  # Longest path of the directory; a socket's path has room for some 107.
_YOUNG_S = 60.0  # Younger directories are left alone, since a directory is made before it is locked.


class SocketDirectory:
    """A directory that only this user can read. A process that is killed leaves its directory behind, with a
    lock that no process holds. The next process that makes such a directory removes it."""

    def __init__(self) -> None:
        _remove_abandoned()
        self.path = tempfile.mkdtemp(prefix=_PREFIX, dir=_parent())
        self._lock = os.open(os.path.join(self.path, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # Without locks, other processes do not take the directory for abandoned.
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def forget(self) -> None:
        """Releases the lock in a forked child, which would still hold it after the parent has gone."""
        os.close(self._lock)


def _parent() -> str:
    directory = tempfile.gettempdir()
    return directory if len(os.fsencode(directory)) + len(_PREFIX) < _MOST_BYTES else "/tmp"


def _remove_abandoned() -> None:
    with contextlib.suppress(OSError), os.scandir(_parent()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and _is_abandoned(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: "os.DirEntry[str]") -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        if time.time() - status.st_mtime < _YOUNG_S:
            return False
        lock = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:  # Its process was killed before it locked the directory, or the directory was removed
                               # meanwhile.
        return os.path.isdir(entry.path)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
