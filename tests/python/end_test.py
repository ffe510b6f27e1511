"""How a node ends that is asked to, or that a rank has left."""

import os
import re
import signal
import subprocess
import sys
import time

from support import PROGRAM, TIMEOUT, ShardTest, main

TRAINER = """
import sys, time
import isocost
endpoint, rank, file, hold = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
loader = isocost.DataLoader(endpoint, rank=rank, world_size=int((sys.argv + ["2"])[6]))
with open(file, "w") as seen:
    while True:
        for microbatch in loader:
            weighty = [s for s, w in zip(microbatch.sample_ids, microbatch.sample_weights) if w > 0]
            print(microbatch.epoch, microbatch.step, *weighty, file=seen, flush=True)
            time.sleep(3600 if microbatch.step == hold else 0.05)
        if microbatch.epoch + 1 == int(sys.argv[5]):
            break
"""
STEPS = 13  # of 4 samples
ENDLESS = 1000


class End(ShardTest):
    def start(self, epochs, holds=(-1, -1)):
        self.node, endpoint = self.serve("--ranks", 2, "--global-batch-size", 4, "--microbatches", 1, "--epochs",
                                         epochs, "--heartbeat-timeout", 2)
        self.files = [self.directory / f"{self.id()}-{rank}" for rank in range(2)]
        self.trainers = [subprocess.Popen(
            [sys.executable, "-B", "-c", TRAINER, endpoint, str(rank), self.files[rank], str(holds[rank]), str(epochs)],
            stderr=subprocess.PIPE, text=True) for rank in range(2)]
        for trainer in self.trainers:
            self.addCleanup(trainer.communicate)
            self.addCleanup(trainer.kill)

    def lines(self, rank):
        """Epoch, step and samples of each microbatch that the rank began."""
        file = self.files[rank]
        return [list(map(int, line.split())) for line in file.read_text().splitlines()] if file.exists() else []

    def wait_for_step(self, step):
        deadline = time.monotonic() + TIMEOUT
        while not all(any(line[1] >= step for line in self.lines(rank)) for rank in range(2)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_node_that_is_asked_to_stop_finishes_the_step_and_says_where_to_resume(self):
        self.start(ENDLESS)
        self.wait_for_step(2)
        self.node.send_signal(signal.SIGTERM)
        errors = [trainer.communicate(timeout=TIMEOUT)[1] for trainer in self.trainers]
        self.node.communicate(timeout=TIMEOUT)
        self.assertEqual(self.node.returncode, 0)
        resumes = []
        for error in errors:
            self.assertIn("isocost.errors.NodeUnavailableError", error)
            resumes.append(tuple(map(int, re.search(r"resume at epoch (\d+), step (\d+)", error).groups())))
        self.assertEqual(resumes[0], resumes[1])
        steps = [[tuple(line[:2]) for line in self.lines(rank)] for rank in range(2)]
        self.assertEqual(steps[0], steps[1])
        self.assertEqual(steps[0], sorted(set(steps[0])))
        epoch, step = steps[0][-1]
        self.assertIn(resumes[0], ((epoch, step + 1), (epoch + 1, 0)))
        samples = [(line[0], sample) for rank in range(2) for line in self.lines(rank) for sample in line[2:]]
        self.assertEqual(len(samples), len(set(samples)))
        self.assertEqual(len(samples), sum(2 if step == STEPS - 1 else 4 for _, step in steps[0]))

    def test_a_second_signal_ends_it_at_once(self):
        self.start(ENDLESS, holds=(2, -1))  # A step that does not end.
        self.wait_for_step(2)
        self.node.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        self.assertIsNone(self.node.poll())
        self.node.send_signal(signal.SIGTERM)
        self.node.communicate(timeout=5)
        self.assertEqual(self.node.returncode, 128 + signal.SIGTERM)

    def test_a_rank_that_is_killed_in_its_last_step_does_not_keep_the_node(self):
        self.start(1, holds=(-1, STEPS - 1))
        self.wait_for_step(STEPS - 1)
        self.trainers[1].kill()
        self.assertEqual(self.trainers[1].wait(timeout=TIMEOUT), -signal.SIGKILL)
        began = time.monotonic()
        self.node.communicate(timeout=TIMEOUT)
        self.assertEqual(self.node.returncode, 1)
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(self.trainers[0].wait(timeout=TIMEOUT), 0)

    def test_a_log_that_nobody_reads_holds_nothing_up(self):
        unread, full = os.pipe()
        self.addCleanup(os.close, unread)
        os.set_blocking(full, False)
        try:
            while True:
                os.write(full, bytes(4096))
        except BlockingIOError:
            os.set_blocking(full, True)
        node = subprocess.Popen([PROGRAM, "serve", "--data", self.shards, "--bind", "tcp://127.0.0.1:*", "--ranks", "1",
                                 "--verbose", "--bad-samples-file", self.directory / "bad.jsonl"],
                                stdout=subprocess.PIPE, stderr=full, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        os.close(full)
        trainer = subprocess.run([sys.executable, "-B", "-c", TRAINER, node.stdout.readline().split()[-1], "0",
                                  self.directory / "unread", "-1", "1", "1"], timeout=TIMEOUT)
        self.assertEqual(trainer.returncode, 0)
        self.assertEqual(node.wait(timeout=TIMEOUT), 0)

    def test_indexing_stops_at_a_signal(self):
        shard = self.directory / "gz" / "large.tar.gz"
        shard.parent.mkdir()
        with open(shard, "wb") as out:  # Seconds of inflating.
            zeros = subprocess.Popen(["sh", "-c", "head -c 100000000 /dev/zero | gzip -1"], stdout=subprocess.PIPE)
            member, _ = zeros.communicate(timeout=TIMEOUT)
            for _ in range(40):
                out.write(member)
        command = subprocess.Popen([PROGRAM, "check", shard.parent], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(self.directory)})
        self.addCleanup(command.wait)
        self.addCleanup(command.kill)
        time.sleep(0.7)
        self.assertIsNone(command.poll())
        command.send_signal(signal.SIGTERM)
        began = time.monotonic()
        self.assertEqual(command.wait(timeout=TIMEOUT), 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - began, 2)


if __name__ == "__main__":
    main()
