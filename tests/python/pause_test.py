"""Processes that do not run for a while (SIGSTOP, a suspended or migrated machine) are not silent peers."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from support import SAMPLES, TIMEOUT, ShardTest, main

TRAINER = """
import sys, time
import isocost
loader = isocost.DataLoader(sys.argv[1], rank=int(sys.argv[2]), world_size=2)
with open(sys.argv[3], "w") as seen:
    for microbatch in loader:
        print(*(s for s, w in zip(microbatch.sample_ids, microbatch.sample_weights) if w > 0), file=seen, flush=True)
        time.sleep(0.2)
"""
SILENCE = 2  # the heartbeat time-out in seconds


class Pause(ShardTest):
    def setUp(self):
        self.node, endpoint = self.serve("--ranks", 2, "--global-batch-size", 4, "--microbatches", 1,
                                         "--heartbeat-timeout", SILENCE)
        self.seen = [self.directory / f"seen-{self.id()}-{rank}" for rank in range(2)]
        self.trainers = [subprocess.Popen([sys.executable, "-B", "-c", TRAINER, endpoint, str(rank), seen],
                                          stderr=subprocess.PIPE, text=True)
                         for rank, seen in enumerate(self.seen)]
        for trainer in self.trainers:
            self.addCleanup(trainer.communicate)
            self.addCleanup(trainer.kill)
        deadline = time.monotonic() + TIMEOUT
        while not all(seen.exists() and seen.stat().st_size > 0 for seen in self.seen):  # Until both train.
            self.assertLess(time.monotonic(), deadline)
            self.assertEqual([trainer.poll() for trainer in self.trainers], [None, None])
            time.sleep(0.05)

    def wait_until_stopped(self, process):
        deadline = time.monotonic() + TIMEOUT
        stat = pathlib.Path(f"/proc/{process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            self.assertLess(time.monotonic(), deadline, "the process does not stop")
            time.sleep(0.01)

    def pause(self, processes, seconds):
        for process in processes:
            os.kill(process.pid, signal.SIGSTOP)
        for process in processes:
            self.wait_until_stopped(process)
        time.sleep(seconds)
        for process in processes:
            os.kill(process.pid, signal.SIGCONT)

    def expect_every_sample_once(self):
        seen = []
        for trainer, file in zip(self.trainers, self.seen):
            _, errors = trainer.communicate(timeout=TIMEOUT)
            self.assertEqual(trainer.returncode, 0, errors)
            seen += map(int, file.read_text().split())
        self.assertEqual(sorted(seen), list(range(SAMPLES)))
        self.node.communicate(timeout=TIMEOUT)
        self.assertEqual(self.node.returncode, 0)

    def test_a_trainer_that_was_stopped_goes_on(self):
        self.pause(self.trainers[:1], 1.5 * SILENCE)
        self.expect_every_sample_once()

    def test_a_node_that_was_stopped_for_less_than_the_time_out_goes_on(self):
        self.pause([self.node], 0.5 * SILENCE)
        self.expect_every_sample_once()

    def test_all_that_were_stopped_together_go_on(self):
        self.pause([*self.trainers, self.node], 3 * SILENCE)
        self.expect_every_sample_once()


if __name__ == "__main__":
    main()
