"""Signals, forks, threads and the interpreter's exit, each in a process of its own."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from support import PROGRAM, TIMEOUT, ShardTest, main, png

PRELUDE = """
import contextlib, gc, os, signal, sys, threading, time
import isocost

def threads():
    # The name of each thread of this process. One that was joined may stay in the list for a moment.
    names = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it has ended
            names.append(open(f"/proc/self/task/{task}/comm").read())
    return names

def wait_until(true):
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, threads()
        time.sleep(0.001)

def make(**options):
    return isocost.DataLoader(sys.argv[1], **{"global_batch_size": 16, "microbatches": 2, **options})
"""


class Processes(ShardTest):
    def start(self, script):
        return subprocess.Popen([sys.executable, "-B", "-c", PRELUDE + script, self.shards], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run_script(self, script):
        process = self.start(script)
        try:
            output, errors = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
        self.assertEqual(process.returncode, 0, errors)
        return output

    def test_exit_with_an_open_iterator_does_not_hang(self):
        for ending in ("", "sys.exit(0)", "del loader", "iterator = None; gc.collect()"):
            self.run_script(f"loader = make()\niterator = iter(loader)\nnext(iterator)\n{ending}")

    def test_exit_does_not_run_what_is_queued(self):
        output = self.run_script(f"""
import weakref
calls, begun, closing = [], threading.Event(), threading.Event()

def transform(sample):
    calls.append(sample.id)
    begun.set()
    assert closing.wait({TIMEOUT})

def join(thread, timeout=None):
    if thread.name.startswith("isocost-transform"):  # what is queued was cancelled before
        closing.set()
    original(thread, timeout)

original, threading.Thread.join = threading.Thread.join, join
weakref.finalize(transform, lambda: print("calls", len(calls), flush=True))  # after the loader's
loader = make(transform=transform, prefetch=4)
threading.Thread(target=lambda: next(iter(loader)), daemon=True).start()
assert begun.wait({TIMEOUT})
""")
        self.assertLessEqual(int(output.split()[-1]), os.cpu_count())  # 32 were queued, and each thread began one

    def test_no_thread_and_no_file_survives_close(self):
        with tempfile.TemporaryDirectory() as directory:  # of its own: other tests make files beside it
            self.run_script(f"os.environ['TMPDIR'] = {directory!r}" + """
import torch
before = len(threads())
for _ in range(3):
    loader = make()
    next(iter(loader))
    assert len(threads()) > before
    loader.close()
    # oneTBB keeps its workers for the next loader.
    wait_until(lambda: len(threads()) - before <= os.cpu_count())
    wait_until(lambda: not any(name.startswith("ZMQbg") for name in threads()))
""")
            self.assertEqual(os.listdir(directory), [])

    def test_files_of_a_killed_process_are_removed_by_the_next(self):
        with tempfile.TemporaryDirectory() as directory:
            killed = self.start(f"""
os.environ["TMPDIR"] = {directory!r}
loader = make()
next(iter(loader))
os.kill(os.getpid(), signal.SIGTERM)
""")
            killed.communicate(timeout=TIMEOUT)
            self.assertEqual(killed.returncode, -signal.SIGTERM)
            (abandoned,) = os.listdir(directory)
            young = time.time()
            os.utime(os.path.join(directory, abandoned), (young - 3600, young - 3600))
            self.run_script(f"""
os.environ["TMPDIR"] = {directory!r}
first, other = make(), make()
next(iter(first))
own = os.listdir({directory!r})
assert {abandoned!r} not in own, own
os.utime(os.path.join({directory!r}, own[0]), (0, 0))
next(iter(other))  # removes nothing that is in use
assert len(os.listdir({directory!r})) == 2
first.close()
other.close()
assert not os.listdir({directory!r})
""")

    def wait_until_asleep(self, process):
        """Blocks until the process's main thread is blocked."""
        deadline = time.monotonic() + TIMEOUT
        stat = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "S":
            self.assertLess(time.monotonic(), deadline, "the script does not wait")

    def interrupt(self, script):
        """Sends SIGINT to the script once it has printed "waiting"; what it prints after that."""
        process = self.start(script)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        self.assertEqual(line, "waiting\n", line or process.stderr.read())
        self.wait_until_asleep(process)  # in the wait that follows; an earlier signal interrupts as well
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        line = process.stdout.readline()
        waited = time.monotonic() - sent
        output, errors = process.communicate(timeout=TIMEOUT)
        self.assertIn("interrupted", line + output, errors)
        self.assertLess(waited, 10)  # 100 ms is the promise; the machine may be busy
        self.assertEqual(process.returncode, 0, errors)

    def test_ctrl_c_ends_a_wait_for_data(self):
        # Rank 1 never joins, and planning stays at most --plan-ahead steps ahead of the slowest rank.
        _, endpoint = self.serve("--ranks", 2, "--global-batch-size", 4, "--microbatches", 1, "--plan-ahead", 1)
        self.interrupt(f"""
loader = isocost.DataLoader("{endpoint}", rank=0, world_size=2)
iterator = iter(loader)
next(iterator), next(iterator)
try:
    print("waiting", flush=True)
    next(iterator)
except KeyboardInterrupt:
    print("interrupted", flush=True)
loader.close()
""")

    def test_ctrl_c_ends_connecting(self):
        self.interrupt("""
loader = isocost.DataLoader("tcp://127.0.0.1:1", rank=0, world_size=1, connect_timeout=30)
try:
    print("waiting", flush=True)
    next(iter(loader))
except KeyboardInterrupt:
    print("interrupted", flush=True)
loader.close()
""")

    def test_a_stopped_trainer_is_replaced_by_the_next(self):
        # Microbatches that are under way to it, more than sockets buffer, hold all memory of the node.
        photos = self.directory / "photos"
        photos.mkdir()
        for i in range(24):
            (photos / f"{i:02}.png").write_bytes(png(700, 700, i))
        subprocess.run([PROGRAM, "make-shards", photos, photos / "shards"], check=True, capture_output=True,
                       timeout=TIMEOUT)
        node, endpoint = self.serve("--ranks", 1, "--global-batch-size", 4, "--microbatches", 1, "--memory", "16MiB",
                                    "--heartbeat-timeout", 1, data=photos / "shards")
        stopped = self.start(f"""
next(iter(isocost.DataLoader("{endpoint}", rank=0, world_size=1, prefetch=64)))
print("waiting", flush=True)
signal.pause()
""")
        self.addCleanup(stopped.communicate)
        self.addCleanup(stopped.kill)
        self.assertEqual(stopped.stdout.readline(), "waiting\n")
        stopped.send_signal(signal.SIGSTOP)
        self.run_script(f"""
loader = isocost.DataLoader("{endpoint}", rank=0, world_size=1)
assert sum(len(microbatch.sample_ids) for microbatch in loader) == 24
loader.close()
""")
        self.assertEqual(node.wait(TIMEOUT), 0)

    def test_a_forked_child_is_told_and_exits(self):
        output = self.run_script("""
loader = make()
iterator = iter(loader)
next(iterator)
child = os.fork()
if child == 0:
    try:
        next(iterator)
    except RuntimeError as error:
        print(error, flush=True)
    try:
        loader.stats()
    except RuntimeError as error:
        print(error, flush=True)
    loader.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert sum(1 for _ in iterator) > 0
""")
        self.assertIn("made before the process forked", output)

    def test_a_process_forked_beside_a_node_makes_none(self):
        output = self.run_script("""
loaders = [make() for _ in range(3)]
next(iter(loaders[0]))
child = os.fork()
if child == 0:
    try:
        make()
    except RuntimeError as error:
        print(error, flush=True)
    child = os.fork()
    if child != 0:
        assert os.waitpid(child, 0)[1] == 0
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
for loader in loaders:
    loader.close()
child = os.fork()
if child == 0:
    again = make()
    assert sum(1 for _ in again) > 0
    again.close()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
        self.assertIn("did not come along", output)

    def test_a_socket_has_room_in_a_deep_directory(self):
        deep = self.directory / ("deep" * 30)
        deep.mkdir()
        self.run_script(f"""
os.environ["TMPDIR"] = {str(deep)!r}
with make() as loader:
    next(iter(loader))
""")


if __name__ == "__main__":
    main()
