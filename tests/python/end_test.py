"""How a node ends that is asked to, or that a rank has left."""

import os
import re
import signal
import subprocess
import sys
import time

from support import TIMEOUT, ShardTest, main

TRAINER = """
import sys, time
import isocost
loader = isocost.DataLoader(sys.argv[1], rank=int(sys.argv[2]), world_size=2)
with open(sys.argv[3], "w") as seen:
    for microbatch in loader:
        weighty = [s for s, w in zip(microbatch.sample_ids, microbatch.sample_weights) if w > 0]
        print(microbatch.step, *weighty, file=seen, flush=True)
        time.sleep(0.05)
"""
STEPS = 13  # of 4 samples


class End(ShardTest):
    def setUp(self):
        self.node, endpoint = self.serve("--ranks", 2, "--global-batch-size", 4, "--microbatches", 1,
                                         "--heartbeat-timeout", 2)
        self.files = [self.directory / f"{self.id()}-{rank}" for rank in range(2)]
        self.trainers = [subprocess.Popen([sys.executable, "-B", "-c", TRAINER, endpoint, str(rank), file],
                                          stderr=subprocess.PIPE, text=True) for rank, file in enumerate(self.files)]
        for trainer in self.trainers:
            self.addCleanup(trainer.communicate)
            self.addCleanup(trainer.kill)

    def lines(self, rank):
        file = self.files[rank]
        return [list(map(int, line.split())) for line in file.read_text().splitlines()] if file.exists() else []

    def wait_for_step(self, step, rank=0):
        deadline = time.monotonic() + TIMEOUT
        while not any(line[0] >= step for line in self.lines(rank)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_node_that_is_asked_to_stop_finishes_the_step_and_says_where_to_resume(self):
        self.wait_for_step(2)
        self.node.send_signal(signal.SIGTERM)
        errors = [trainer.communicate(timeout=TIMEOUT)[1] for trainer in self.trainers]
        self.node.communicate(timeout=TIMEOUT)
        self.assertEqual(self.node.returncode, 0)
        resumes = []
        for error in errors:
            self.assertIn("isocost.errors.NodeUnavailableError", error)
            resumes.append(int(re.search(r"resume at epoch 0, step (\d+)", error).group(1)))
        self.assertEqual(len(set(resumes)), 1)
        self.assertLess(resumes[0], STEPS)
        for rank in range(2):
            self.assertEqual([line[0] for line in self.lines(rank)], list(range(resumes[0])))
        samples = [sample for rank in range(2) for line in self.lines(rank) for sample in line[1:]]
        self.assertEqual(len(samples), len(set(samples)))
        self.assertEqual(len(samples), 4 * resumes[0])

    def test_a_second_signal_ends_it_at_once(self):
        self.wait_for_step(2)
        os.kill(self.trainers[0].pid, signal.SIGSTOP)  # A step that does not end.
        self.node.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        self.assertIsNone(self.node.poll())
        self.node.send_signal(signal.SIGTERM)
        self.node.communicate(timeout=5)
        self.assertEqual(self.node.returncode, 128 + signal.SIGTERM)

    def test_a_rank_that_is_killed_in_the_last_steps_does_not_keep_the_node(self):
        self.wait_for_step(STEPS - 2)
        self.trainers[1].kill()
        self.assertEqual(self.trainers[1].wait(timeout=TIMEOUT), -signal.SIGKILL)
        began = time.monotonic()
        self.node.communicate(timeout=TIMEOUT)
        self.assertEqual(self.node.returncode, 1)
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(self.trainers[0].wait(timeout=TIMEOUT), 0)
        self.assertEqual(self.lines(0)[-1][0], STEPS - 1)


if __name__ == "__main__":
    main()
