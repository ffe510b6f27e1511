"""Converts Parquet files to one file of JSON records, row groups in parallel, and goes on where an earlier run was
stopped. `isocost make-shards` runs it as a process, and makes shards of the records."""

import argparse
import contextlib
import ctypes
import fcntl
import itertools
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

RECORDS, ROWS, _STATE, _LOCK = "records.jsonl", "rows.json", "state.json", "lock"
_AHEAD = 2  # row groups for each process that may be converted before the one that is due
_INTERRUPTED = 128 + signal.SIGINT


class Source(NamedTuple):
    """A Parquet file. With another size or modification time it is another one.

    Attributes:
        path: str, absolute.
        bytes, modified_ns: int.
        group_rows: list of int, the rows of each row group.
    """

    path: str
    bytes: int
    modified_ns: int
    group_rows: List[int]


class Conversion:
    """A conversion into a directory, which keeps what is done until somebody removes it.

    Args:
        directory: for the records and what is known of them.
        sources: list of Source.
        ignored: columns that are left out.
    """

    def __init__(self, directory: pathlib.Path, sources: List[Source], ignored: Tuple[str, ...]):
        from isocost.parquet.rows import RowGroup

        self._directory = directory
        self._task: Dict[str, Any] = {"version": 1, "sources": [list(source) for source in sources],
                                      "ignored": list(ignored)}
        self.groups = [
            RowGroup(source.path, number, first_row, str(directory / f"{i:06}-{number:06}.jsonl"), ignored)
            for i, source in enumerate(sources)
            for number, first_row in enumerate(itertools.accumulate([0, *source.group_rows][:len(source.group_rows)]))]

    def begin(self) -> int:
        """Returns the number of row groups that an earlier run of the same task has written. Removes what is of
        another one."""
        try:
            state = json.loads((self._directory / _STATE).read_text(encoding="utf-8"))
            done, size = int(state["groups"]), int(state["bytes"])
            fits = state["task"] == self._task and (self._directory / RECORDS).stat().st_size >= size
        except (OSError, ValueError, TypeError, KeyError):
            fits = False
        if fits:
            os.truncate(self._directory / RECORDS, size)
            return done
        for entry in self._directory.iterdir():
            if entry.name != _LOCK:
                entry.unlink()
        (self._directory / RECORDS).touch()
        return 0

    def run(self, done: int, workers: int) -> Iterator[int]:
        """Converts the other row groups. Yields the number of those that are written, after each."""
        from isocost.parquet.rows import write_lines

        begun: Dict[int, "Future[None]"] = {}
        with _processes(max(1, min(workers, len(self.groups) - done))) as executor:
            for at in range(done, len(self.groups)):
                for ahead in range(at, min(at + _AHEAD * workers, len(self.groups))):
                    if ahead not in begun and not os.path.exists(self.groups[ahead].lines):
                        begun[ahead] = executor.submit(write_lines, self.groups[ahead])
                if at in begun:
                    begun.pop(at).result()
                self._append(at)
                yield at + 1

    def _append(self, at: int) -> None:
        """Appends the lines of a row group to the records. A run that ends here begins with this group again."""
        lines = self.groups[at].lines
        with open(lines, "rb") as read, open(self._directory / RECORDS, "ab") as records:
            shutil.copyfileobj(read, records, 1 << 20)
            size = records.tell()
        part = self._directory / f"{_STATE}.part"
        part.write_text(json.dumps({"task": self._task, "groups": at + 1, "bytes": size}), encoding="utf-8")
        os.replace(part, self._directory / _STATE)
        os.unlink(lines)


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that convert row groups within a `with` block. All of them have ended when it ends."""
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_process, (os.getpid(),))
    # Interrupted in its imports, a process would print a trace. Processes inherit what is blocked when they start,
    # and this one ends them.
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        executor.submit(os.getpid).result()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        yield executor
    except BaseException:
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        executor.shutdown(cancel_futures=True)


def _begin_process(parent: int) -> None:
    """Runs first in a process that converts: it ends when its parent ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _opened(path: str, ignored: Tuple[str, ...]) -> Source:
    """Raises ValueError and OSError for a file that is not read."""
    from isocost.parquet.columns import columns_of
    from isocost.parquet.rows import open_parquet

    status = os.stat(path)
    with open_parquet(path) as opened:
        columns_of(opened.schema_arrow, ignored, path)
        rows = [opened.metadata.row_group(i).num_rows for i in range(opened.metadata.num_row_groups)]
    return Source(os.path.abspath(path), status.st_size, status.st_mtime_ns, rows)


def _convert(directory: pathlib.Path, files: Sequence[str], ignored: Tuple[str, ...], workers: int) -> Iterator[str]:
    """Yields the progress, as `convert` writes it."""
    sources = [_opened(file, ignored) for file in files]
    if not any(sum(source.group_rows) for source in sources):
        raise ValueError(f"{files[0]}: no rows" if len(files) == 1 else "the Parquet files have no rows")
    with open(directory / _LOCK, "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{directory}: another make-shards converts Parquet files there: wait for its end, or "
                             "name another directory") from None
        conversion = Conversion(directory, sources, ignored)
        done = conversion.begin()
        (directory / ROWS).write_text(json.dumps([sum(source.group_rows) for source in sources]), encoding="utf-8")
        yield f"{done} {len(conversion.groups)}"
        for written in conversion.run(done, workers):
            yield f"{written} {len(conversion.groups)}"


def main(arguments: Optional[Sequence[str]] = None, program: str = "isocost make-shards") -> int:
    """Converts files, and tells the program that runs it by lines on standard output: "DONE GROUPS", or "error: " and
    a JSON list of whether the machine failed, and of the message."""
    parser = argparse.ArgumentParser(program)
    parser.add_argument("--directory", type=pathlib.Path, required=True)
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--ignore-column", action="append", default=[])
    parser.add_argument("files", nargs="+")
    given = parser.parse_args(arguments)
    try:
        for line in _convert(given.directory, given.files, tuple(given.ignore_column), given.workers):
            print(line, flush=True)
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenProcessPool:
        error = (True, "a process that converted rows was killed, perhaps for want of memory: --workers 1 takes less")
    except ImportError as missing:
        error = (False, f"Parquet is read by the Python package pyarrow, which {sys.executable} cannot import "
                        f"({missing}): pip install pyarrow")
    except (OSError, ValueError) as wrong:
        error = (isinstance(wrong, OSError), str(wrong).encode("utf-8", "backslashreplace").decode())
    print("error: " + json.dumps(error), flush=True)
    return 1
