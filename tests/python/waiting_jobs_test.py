"""Jobs that start on data while another process makes its indexes or tokens."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from isocost import _isocost
from support import PROGRAM, TIMEOUT, ShardTest, main

HAS_NEEDED = all(map(importlib.util.find_spec, ("tokenizers", "jinja2")))
HOLD = """
import os, sys
from isocost import _isocost
os.makedirs(os.path.dirname(sys.argv[1]), exist_ok=True)
with _isocost.MakerLock(sys.argv[1], "it", print) as lock:
    lock.tell("3 of 10 shards")
    print("held", flush=True)
    sys.stdin.readline()
"""
TRAIN = """
import sys, isocost
loader = isocost.DataLoader(sys.argv[1], global_batch_size=10, microbatches=1, epochs=1,
                            **({"model": sys.argv[2], "loss": "token_loss"} if sys.argv[2:] else {}))
print(sum(len(microbatch.sample_ids) for microbatch in loader), flush=True)
"""


class JobTest(ShardTest):
    def setUp(self):
        shutil.rmtree(self.shards / ".isocost", ignore_errors=True)

    def start(self, *command, **options):
        process = subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def hold(self, name):
        holder = self.start(sys.executable, "-B", "-c", HOLD, self.shards / ".isocost" / name)
        self.assertEqual(holder.stdout.readline(), "held\n")
        return holder

    def release(self, holder):
        holder.stdin.write("\n")
        holder.stdin.flush()
        self.ended(holder)

    def train(self, *model):
        return self.start(sys.executable, "-B", "-c", TRAIN, self.shards, *model)

    def waits_for(self, job, holder, what):
        said = job.stderr.readline()
        self.assertRegex(said, rf"the {what} of {self.shards}: process {holder.pid} on host \S+ \(3 of 10 shards\) "
                               "makes them; waiting until it has ended")

    def ended(self, job, status=0):
        output, errors = job.communicate(timeout=TIMEOUT)
        self.assertEqual(job.returncode, status, errors)
        return output, errors


class Jobs(JobTest):
    def test_a_job_waits_for_the_indexes(self):
        for command in (("index", self.shards), ("check", self.shards), None):
            with self.subTest(command=command):
                shutil.rmtree(self.shards / ".isocost", ignore_errors=True)
                holder = self.hold("index.lock")
                job = self.train() if command is None else self.start(PROGRAM, *command)
                self.waits_for(job, holder, "indexes")
                self.assertEqual(list(self.shards.glob(".isocost/*.idx")), [])
                self.release(holder)
                _output, errors = self.ended(job)
                self.assertNotIn("ended before it was done", errors)
                self.assertFalse((self.shards / ".isocost" / "index.lock").exists())

    def test_a_killed_maker_is_taken_over(self):
        holder = self.hold("index.lock")
        job = self.train()
        self.waits_for(job, holder, "indexes")
        holder.kill()
        output, errors = self.ended(job)
        self.assertEqual(output, "50\n")
        self.assertRegex(errors, rf"process {holder.pid} on host .*ended before it was done; this process goes on")

    def test_a_stop_ends_the_wait(self):
        holder = self.hold("index.lock")
        for number, program in ((signal.SIGTERM, True), (signal.SIGINT, True), (signal.SIGINT, False)):
            job = self.start(PROGRAM, "check", self.shards) if program else self.train()
            self.waits_for(job, holder, "indexes")
            job.send_signal(number)
            _output, errors = job.communicate(timeout=TIMEOUT)
            self.assertNotEqual(job.returncode, 0)
            # One thread waits for the other process, others for this thread, and the rest finds that it is to stop.
            stopped = "stopped while (another process makes the indexes|waiting to make the indexes|indexing)"
            self.assertRegex(errors, stopped if program else "KeyboardInterrupt")
            self.assertNotIn("waiting until", errors)  # which was said before the stop
        self.assertIsNone(holder.poll())
        self.assertEqual(list(self.shards.glob(".isocost/*.idx")), [])

    def test_a_signal_that_comes_while_the_wait_is_logged_ends_it(self):
        held = self.hold("index.lock")
        for raised in (lambda: signal.raise_signal(signal.SIGINT), lambda: sys.exit("ended")):
            with self.assertRaises((KeyboardInterrupt, SystemExit)):
                with _isocost.MakerLock(str(self.shards / ".isocost" / "index.lock"), "it",
                                        lambda _level, _text, raised=raised: raised()):
                    self.fail("it is held by another process")
        self.assertIsNone(held.poll())

    def test_the_other_ranks_wait_longer_than_their_time_out(self):
        from torch import distributed

        store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        environment = {**os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        holder = self.hold("index.lock")
        ranks = [self.start(sys.executable, "-B", "-c", TRAIN.replace("epochs=1", "epochs=1, connect_timeout=2"),
                            self.shards, env={**environment, "RANK": str(rank)}) for rank in range(2)]
        self.waits_for(ranks[0], holder, "indexes")
        time.sleep(5)  # Longer than two time-outs.
        self.assertEqual([rank.poll() for rank in ranks], [None, None])
        self.release(holder)
        self.assertEqual(sum(int(self.ended(rank)[0]) for rank in ranks), 50)

    def test_jobs_that_begin_together_all_train(self):
        jobs = [self.train() for _i in range(3)]
        for job in jobs:
            self.assertEqual(self.ended(job)[0], "50\n")
        self.assertFalse((self.shards / ".isocost" / "index.lock").exists())

    def test_current_indexes_are_used_while_another_process_makes_some(self):
        self.ended(self.start(PROGRAM, "index", self.shards))
        self.hold("index.lock")
        self.assertEqual(self.ended(self.train()), ("50\n", ""))


@unittest.skipUnless(HAS_NEEDED, "tokenizers or jinja2 is not installed: ./run test --torch2 has them")
class JobsOfAModel(JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import model_directories
        from model_test import write_shards

        cls.model = model_directories.make(cls.directory / "model")
        cls.shards = cls.directory / "conversations"
        cls.shards.mkdir()
        write_shards(cls.shards)

    def train(self, *_model):
        return super().train(self.model)

    def test_a_killed_maker_is_taken_over(self):
        for name, what in (("index.lock", "indexes"), ("tokenize.lock", "tokens")):
            with self.subTest(name=name):
                shutil.rmtree(self.shards / ".isocost", ignore_errors=True)
                holder = self.hold(name)
                job = self.train()
                self.waits_for(job, holder, what)
                holder.kill()
                output, errors = self.ended(job)
                self.assertEqual(output, "48\n")
                self.assertRegex(errors, rf"process {holder.pid} on host .*ended before it was done; this process goes")

    def test_jobs_that_begin_together_all_train(self):
        jobs = [self.train() for _i in range(3)]
        for job in jobs:
            self.assertEqual(self.ended(job)[0], "48\n")
        files = {file.suffix for file in self.shards.glob(".isocost/*") if file.is_file()}
        self.assertEqual(files, {".idx", ".tokens"})

    def test_the_options_of_the_tokens_that_were_waited_for_are_used(self):
        self.ended(self.start(sys.executable, "-B", "-m", "isocost.tokenize", self.shards, "--model", self.model,
                              "--labels", "last"))
        kept = self.directory / "kept"
        kept.mkdir()
        for file in self.shards.glob(".isocost/*.tokens"):
            shutil.move(file, kept)
        holder = self.hold("tokenize.lock")
        job = self.train()
        self.waits_for(job, holder, "tokens")
        for file in kept.iterdir():
            shutil.move(file, self.shards / ".isocost")
        self.release(holder)
        self.assertEqual(self.ended(job)[0], "48\n")

    def test_current_indexes_are_used_while_another_process_makes_some(self):
        self.assertEqual(self.ended(self.train())[0], "48\n")
        self.hold("tokenize.lock")
        self.hold("index.lock")
        output, errors = self.ended(self.train())
        self.assertEqual(output, "48\n")
        self.assertNotIn("waiting until", errors)


if __name__ == "__main__":
    main()
