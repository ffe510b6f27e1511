"""How long it takes from a complete microbatch on the node to its PyTorch tensors in the trainer on the same host, in
shared memory and over the socket, by size.

The trainer waits for each microbatch, and receives none ahead. Prints medians and the 5th and 95th percentile.
"""

import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "transport"))

import handover  # noqa: E402
import torch  # noqa: E402

import isocost  # noqa: E402
from isocost.microbatch import torch_tensors  # noqa: E402

MICROBATCHES = 200
WARM = 20


def receive(size, shared):
    """Microseconds of each microbatch after the first ones."""
    times = []
    with handover.client(size, MICROBATCHES, shared, prefetch=1) as client:
        for _ in range(MICROBATCHES):
            tensors = None  # the block goes back
            microbatch = client.next()
            tensors = torch_tensors(microbatch)
            now = time.monotonic_ns()
            times.append((now - int(tensors["position_ids"][0])) / 1e3)
            if len(times) <= WARM:  # the answer, before what counts
                assert bool((tensors["vision_patches"] == ord("x")).all()), "other bytes than were sent"
            del microbatch
        assert (client.bytes_copied() == 0) == shared, "they came another way"
    return times[WARM:]


def main():
    print(f"torch {torch.__version__}, isocost {isocost.__version__}, {os.cpu_count()} cores; microseconds from a "
          f"complete microbatch to tensors in Python, {MICROBATCHES - WARM} microbatches")
    for size in (64 << 10, 1 << 20, 16 << 20, 128 << 20):
        for shared in (True, False):
            times = sorted(receive(size, shared))
            low, high = times[len(times) // 20], times[-1 - len(times) // 20]
            print(f"{size >> 10:7} KiB   shared memory {'on' if shared else 'off':3}   "
                  f"median {statistics.median(times):9.1f}   ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
