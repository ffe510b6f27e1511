"""One writer of a directory at a time, whether threads or processes."""

import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

from isocost.tokens.directory_lock import DirectoryLock
from support import main

HOLD = """
import sys
from isocost.tokens.directory_lock import DirectoryLock
with DirectoryLock(sys.argv[1], "lock"):
    print("held", flush=True)
    sys.stdin.read()
"""


class Locks(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.directory = pathlib.Path(made.name)

    def refused(self):
        with self.assertRaises(BlockingIOError) as caught, DirectoryLock(str(self.directory), "lock"):
            self.fail("two hold the lock")
        return str(caught.exception)

    def test_another_thread_is_refused(self):
        said = []
        with DirectoryLock(str(self.directory), "lock"):
            thread = threading.Thread(target=lambda: said.append(self.refused()))
            thread.start()
            thread.join()
            self.assertIn(f"process {os.getpid()} writes here", said[0])
            self.assertTrue((self.directory / "lock").exists())
        self.assertEqual(list(self.directory.iterdir()), [])
        with DirectoryLock(str(self.directory), "lock"):
            pass

    def test_another_process_is_refused_until_it_is_killed(self):
        with subprocess.Popen([sys.executable, "-B", "-c", HOLD, self.directory], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as holder:
            self.addCleanup(holder.kill)
            self.assertEqual(holder.stdout.readline(), "held\n")
            self.assertIn(f"process {holder.pid} writes here", self.refused())
            holder.kill()
        with DirectoryLock(str(self.directory), "lock"):
            pass
        self.assertEqual(list(self.directory.iterdir()), [])

    def test_a_directory_that_is_not_there(self):
        with self.assertRaises(FileNotFoundError), DirectoryLock("/nowhere", "lock"):
            pass


if __name__ == "__main__":
    main()
