"""A node and its trainers for a long time, while ranks and decode workers are killed at random.

Every sample of every finished epoch must have been trained on once, whatever was killed, and the node's memory must
stay flat. Usage: soak.py [--minutes 30] [--seed 1]
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from support import PROGRAM, TIMEOUT, make_shards  # noqa: E402

RANKS = 2
SAMPLES = 400
BETWEEN_KILLS = (3.0, 8.0)  # seconds
# Ranks keep step, as with an all-reduce, and rank 0 saves the state after each one.
TRAINER = """
import json, os, pathlib, sys, time
import isocost
endpoint, rank, ranks, directory, life = sys.argv[1:]
rank, ranks, directory = int(rank), int(ranks), pathlib.Path(directory)
state = directory / "state.json"
loader = isocost.DataLoader(endpoint, rank=rank, world_size=ranks)
if state.exists():
    loader.load_state_dict(json.loads(state.read_text()))

def write(file, text):
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)

def wait_for_all(step):
    write(directory / f"done-{life}-{rank}", str(step))
    for other in range(ranks):
        file = directory / f"done-{life}-{other}"
        while not file.exists() or int(file.read_text()) < step:
            time.sleep(0.002)

steps = 0
with open(directory / f"seen-{rank}.jsonl", "a") as seen:
    while True:
        for microbatch in loader:
            ids = [s for s, weight in zip(microbatch.sample_ids, microbatch.sample_weights) if weight > 0]
            print(json.dumps([int(life), microbatch.epoch, microbatch.step, ids]), file=seen, flush=True)
            if microbatch.last_of_step:
                steps += 1
                wait_for_all(steps)
                if rank == 0:
                    write(state, json.dumps(loader.state_dict(after=microbatch)))
"""


class Soak:
    def __init__(self, directory, seed):
        self.random = random.Random(seed)
        self.directory = directory
        self.kills = collections.Counter()
        self.lives = 0
        self.resident = []  # MiB of the node, once a second
        shards = make_shards(directory, SAMPLES)
        self.node = subprocess.Popen(
            [PROGRAM, "serve", "--data", shards, "--bind", "tcp://127.0.0.1:*", "--ranks", str(RANKS), "--epochs", "0",
             "--global-batch-size", "16", "--microbatches", "2", "--memory", "64MiB", "--heartbeat-timeout", "30",
             "--workers", "2", "--bad-samples-file", directory / "bad.jsonl", "--summary", directory / "summary.json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.endpoint = self.node.stdout.readline().split()[-1]
        self.start()

    def start(self):
        self.lives += 1
        self.trainers = [subprocess.Popen([sys.executable, "-B", "-c", TRAINER, self.endpoint, str(rank), str(RANKS),
                                           self.directory, str(self.lives)], stderr=subprocess.DEVNULL)
                         for rank in range(RANKS)]

    def kill_somebody(self):
        """Kills a decode worker, which the node replaces, or a rank. All ranks then start again from the last saved
        state, as under torchrun."""
        workers = decode_workers(self.node.pid)
        if workers and self.random.random() < 0.5:
            try:
                os.kill(self.random.choice(workers), signal.SIGKILL)
                self.kills["decode worker"] += 1
            except ProcessLookupError:
                pass
            return
        victim = self.random.choice(self.trainers)
        victim.kill()
        assert victim.wait() == -signal.SIGKILL, "the trainer had ended before it was killed"
        self.kills["rank"] += 1
        self.kill_trainers()
        self.start()

    def kill_trainers(self):
        for trainer in self.trainers:
            trainer.kill()
            trainer.wait()

    def run(self, seconds):
        end = time.monotonic() + seconds
        next_kill = time.monotonic() + BETWEEN_KILLS[1]
        while (now := time.monotonic()) < end:
            assert self.node.poll() is None, f"the node ended with status {self.node.returncode}"
            for rank, trainer in enumerate(self.trainers):
                assert trainer.poll() is None, f"rank {rank} ended on its own, with status {trainer.returncode}"
            self.resident.append(resident_mib(self.node.pid))
            if now >= next_kill:
                self.kill_somebody()
                next_kill = now + self.random.uniform(*BETWEEN_KILLS)
            show(f"{len(self.resident)} s, {sum(self.kills.values())} kills, {self.resident[-1]:.0f} MiB")
            time.sleep(1)

    def stop(self):
        """The node's exit status after it has drained."""
        self.node.send_signal(signal.SIGTERM)
        try:
            return self.node.wait(TIMEOUT)
        finally:
            self.node.kill()
            self.kill_trainers()


def decode_workers(node):
    children = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(node)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in children.splitlines() if "decode-worker" in line]


def resident_mib(process):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the node has no memory: it has ended")


def show(text):
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)


def read_steps(directory):
    """Samples of each (epoch, step), of all ranks in the life that trained on it last; and how many steps were begun
    again."""
    lives = collections.defaultdict(lambda: collections.defaultdict(list))
    for file in directory.glob("seen-*.jsonl"):
        for line in file.read_text().splitlines():
            try:
                life, epoch, step, ids = json.loads(line)
            except json.JSONDecodeError:
                continue  # of a rank that was killed while it wrote
            lives[epoch, step][life] += ids
    steps = {at: of_lives[max(of_lives)] for at, of_lives in lives.items()}
    return steps, sum(len(of_lives) - 1 for of_lives in lives.values())


def check_epochs(steps):
    """The number of finished epochs, in each of which every sample came once."""
    epochs = collections.defaultdict(list)
    for (epoch, _), ids in steps.items():
        epochs[epoch] += ids
    finished = sorted(epochs)[:-1]
    for epoch in finished:
        counts = collections.Counter(epochs[epoch])
        twice = [sample for sample, count in counts.items() if count > 1]
        assert not twice and len(counts) == SAMPLES, f"epoch {epoch}: {len(counts)} samples, twice: {twice}"
    return len(finished)


def growth(resident):
    """MiB between the medians of the second and the last quarter of the time: the first one fills caches."""
    quarter = len(resident) // 4
    early, late = sorted(resident[quarter:2 * quarter]), sorted(resident[-quarter:])
    return late[len(late) // 2] - early[len(early) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-growth", type=float, default=16, help="MiB that the node may grow [%(default)s]")
    given = parser.parse_args()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-soak-"))
    try:
        soak = Soak(directory, given.seed)
        try:
            soak.run(60 * given.minutes)
        finally:
            status = soak.stop()
        assert status == 0, f"the node drained with status {status}"
        steps, again = read_steps(directory)
        epochs = check_epochs(steps)
        assert epochs > 0, "no epoch was finished"
        assert set(soak.kills) == {"rank", "decode worker"}, f"killed: {dict(soak.kills)}"
        grown = growth(soak.resident)
        print(f"{given.minutes:g} min: {epochs} epochs of {SAMPLES} samples, each once; {again} of {len(steps)} steps "
              f"trained on again; killed: {dict(soak.kills)}; node {soak.resident[-1]:.0f} MiB, {grown:+.1f} MiB since "
              "the first half")
        assert grown <= given.most_growth, f"the node grew by {grown:.1f} MiB"
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
