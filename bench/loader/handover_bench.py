"""How long it takes from a complete microbatch on the node to its PyTorch tensors in the trainer on the same host, in
shared memory and over the socket, by size.

The trainer waits for each microbatch, and receives none ahead. Prints medians and the 5th and 95th percentile.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "build/release/python"))

import torch  # noqa: E402

import isocost  # noqa: E402
from isocost import _isocost  # noqa: E402

MICROBATCHES = 200
WARM = 20


def receive(size, shared):
    """Microseconds of each microbatch after the first ones."""
    program = REPOSITORY / "build/release/bench/nodes/handover_node"
    node = subprocess.Popen([program, str(size), str(MICROBATCHES), shared], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    times = []
    with node:
        client = _isocost.Client(endpoint=node.stdout.readline().strip(), rank=0, world_size=1, prefetch=1,
                                 prepares_ahead=False, connect_timeout_s=10.0, start=None, server_key_file="",
                                 secret_key_file="", hardware="", layout=0, on_log=lambda *_: None)
        for _ in range(MICROBATCHES):
            tensors = None  # the block goes back
            microbatch = client.next()
            tensors = {name: torch.utils.dlpack.from_dlpack(capsule) for name, capsule in microbatch.capsules()}
            now = time.monotonic_ns()
            times.append((now - int(tensors["llm.position_ids"][0])) / 1e3)
            if len(times) <= WARM:  # the answer, before what counts
                assert bool((tensors["vision.patches"] == ord("x")).all()), "other bytes than were sent"
            del microbatch
        copied = client.bytes_copied()
        assert (copied == 0) == (shared == "on"), "they came another way"
        client.close()
        node.stdin.close()
    return times[WARM:]


def main():
    print(f"torch {torch.__version__}, isocost {isocost.__version__}, {os.cpu_count()} cores; microseconds from a "
          f"complete microbatch to tensors in Python, {MICROBATCHES - WARM} microbatches")
    for size in (64 << 10, 1 << 20, 16 << 20, 128 << 20):
        for shared in ("on", "off"):
            times = sorted(receive(size, shared))
            low, high = times[len(times) // 20], times[-1 - len(times) // 20]
            print(f"{size >> 10:7} KiB   shared memory {shared:3}   median {statistics.median(times):9.1f}   "
                  f"({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
