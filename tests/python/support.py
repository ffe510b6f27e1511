"""Parts that the tests of the Python package share: small shards of real media, made by the program itself."""

import collections
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import wave
import zlib

SKIPPED = 77  # the exit status that ctest counts as skipped
PROGRAM = os.environ["ISOCOST_PROGRAM"]
RANK_PROGRAM = pathlib.Path(__file__).with_name("rank.py")
SAMPLES = 50
TIMEOUT = 60


def png_rows(width, height, seed):
    """Returns the rows of RGB pixels that png() stores."""
    row = bytes((i * 7 + seed) % 256 for i in range(3 * width))
    return [row[y % 50:] + row[:y % 50] for y in range(height)]


def png(width, height, seed):
    """An RGB picture."""
    rows = b"".join(b"\0" + row for row in png_rows(width, height, seed))

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_tone(file, seconds):
    with wave.open(str(file), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16000)
        frames = (int(8000 * math.sin(i / 10)) for i in range(int(16000 * seconds)))
        out.writeframes(b"".join(struct.pack("<h", frame) for frame in frames))


def make_shards(directory, samples=SAMPLES):
    """Texts, pictures with captions, sounds with text, in turn; returns the shards' directory."""
    directory = pathlib.Path(directory)
    files = directory / "files"
    files.mkdir(parents=True)
    for i in range(samples):
        stem = files / f"s{i:04}"
        stem.with_suffix(".txt").write_text(f"sample {i} " + "x" * (i * 7 % 60))
        if i % 3 == 1:
            stem.with_suffix(".png").write_bytes(png(28 + i % 90, 28 + i * 5 % 60, i))
        if i % 3 == 2:
            write_tone(stem.with_suffix(".wav"), 0.2 + i % 4 / 10)
    shards = directory / "shards"
    subprocess.run([PROGRAM, "make-shards", files, shards, "--samples-per-shard", "16"], check=True,
                   capture_output=True, timeout=TIMEOUT)
    return shards


class ShardTest(unittest.TestCase):
    """Shards that all tests of a class share."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-python-"))
        cls.shards = make_shards(cls.directory)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def serve(self, *arguments, data=None):
        """A node in a process of its own; (process, endpoint)."""
        node = subprocess.Popen([PROGRAM, "serve", "--data", data or self.shards, "--bind", "tcp://127.0.0.1:*",
                                 "--bad-samples-file", self.directory / "bad.jsonl", *map(str, arguments)],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        return node, node.stdout.readline().split()[-1]


def summary(lines):
    return [json.loads(line) for line in lines.splitlines() if line.startswith("{")]


class Run:
    """The output of the ranks, and their exit statuses."""

    def __init__(self, outputs, errors, statuses):
        self.stdout, self.stderr, self.statuses = "".join(outputs), "".join(errors), statuses


def start_ranks(arguments, ranks, **streams):
    """Debian's torchrun 1.13 does not start under Python 3.11 (its enumeration of redirections), so
    the ranks are started here as torchrun starts them: its environment, and its agent's store, which
    lives as long as the first result. The store takes a free port itself: one that was looked for before
    may be another's by the time it listens."""
    from torch import distributed

    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    return store, [subprocess.Popen(
        [sys.executable, "-B", "-X", "faulthandler", RANK_PROGRAM, *map(str, arguments)], text=True, **streams,
        env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
             "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port),
             "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}) for rank in range(ranks)]


def torchrun(arguments, ranks=2, expect=0):
    """The ranks of one job, run to their end; `expect`: the exit status of each, None for any."""
    store, processes = start_ranks(arguments, ranks, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        outputs = [process.communicate(timeout=2 * TIMEOUT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    del store
    run = Run([out for out, _ in outputs], [error for _, error in outputs], [p.returncode for p in processes])
    if expect is not None and run.statuses != [expect] * ranks:
        raise AssertionError(f"{run.statuses}: {run.stderr}")
    return run


def learned(loader):
    """Reports sent, and those that the node has accepted and refused, once it has all of them."""
    deadline = time.monotonic() + 20
    while True:
        node = loader.stats()["node"]
        counts = loader.stats()["reports"], node["measurements"], node["measurements_rejected"]
        if counts[1] + counts[2] >= counts[0] or time.monotonic() > deadline:
            return counts
        time.sleep(0.01)


def main():
    """Runs the tests of the calling file. Each reason to skip some of them is printed, and then the exit status is 77:
    a test that was skipped in part has not passed."""
    result = unittest.main(exit=False).result
    reasons = collections.Counter(reason for _test, reason in result.skipped)
    for reason, count in reasons.items():
        print(f"skipped {count}: {reason}", file=sys.stderr)
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if reasons else 0)
