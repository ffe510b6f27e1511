"""How long it takes from a complete microbatch on the node to its PyTorch tensors in the trainer on the same host, in
shared memory and over the socket, by size and by how long the trainer has waited.

First the trainer computes for longer than the node needs, and finds the next microbatch there, as with the default
prefetch: what counts is the time from asking for it. Then it waits for each, and receives none ahead. What a processor
takes to wake up depends on how long it was idle: beside each wait, a packet of eight bytes from one waiting process to
another shows it. Prints medians and the 5th and 95th percentile.
"""

import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "transport"))

import handover  # noqa: E402
import torch  # noqa: E402

import isocost  # noqa: E402
from isocost.microbatches.microbatch import torch_tensors  # noqa: E402

MICROBATCHES = 200
WARM = 20
KIB, MIB = 1 << 10, 1 << 20
# By milliseconds: the sizes that the node has copied in less.
WAITS = {2: (64 * KIB, MIB), 25: (64 * KIB, MIB, 16 * MIB, 128 * MIB)}
COMPUTING_S = 0.1  # longer than the node takes to copy the largest
DEADLINE_S = 10
# Answers packets with the time, some seconds after each, until its standard input is closed.
ANSWERING = """
import socket, sys, time
with socket.socket(fileno=0) as asking:
    while asking.recv(1):
        time.sleep(float(sys.argv[1]))
        asking.send(time.monotonic_ns().to_bytes(8, "little"))
"""


def receive(size, shared, wait_ms):
    """Microseconds of each microbatch after the first ones."""
    times = []
    with handover.client(size, MICROBATCHES, shared, prefetch=1, wait_ms=wait_ms) as client:
        for _ in range(MICROBATCHES):
            tensors = None  # the block goes back
            microbatch = handover.take(client)
            tensors = torch_tensors(microbatch)
            now = time.monotonic_ns()
            times.append((now - int(tensors["position_ids"][0])) / 1e3)
            if len(times) <= WARM:  # the answer, before what counts
                assert bool((tensors["vision_patches"] == ord("x")).all()), "other bytes than were sent"
            del microbatch
        assert (client.bytes_copied() == 0) == shared, "they came another way"
    return times[WARM:]


def find(size):
    """Microseconds from asking for a microbatch in shared memory, after computing, to its tensors."""
    times = []
    with handover.client(size, MICROBATCHES, shared=True, prefetch=2, wait_ms=0) as client:
        for _ in range(MICROBATCHES):
            computed = time.monotonic() + COMPUTING_S
            while time.monotonic() < computed:
                pass
            tensors = microbatch = None  # the block goes back
            asked = time.monotonic_ns()
            microbatch = handover.take(client)
            tensors = torch_tensors(microbatch)
            times.append((time.monotonic_ns() - asked) / 1e3)
            if len(times) <= WARM:
                assert bool((tensors["vision_patches"] == ord("x")).all()), "other bytes than were sent"
            else:
                assert int(tensors["position_ids"][0]) < asked, "it was not there yet"
        assert client.bytes_copied() == 0, "they came another way"
    return times[WARM:]


def bare_packets(wait_ms):
    """Microseconds of packets over a Unix socket, each sent by a process that slept to one that waits for it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(DEADLINE_S)
    times = []
    with subprocess.Popen([sys.executable, "-c", ANSWERING, str(wait_ms / 1e3)], stdin=theirs), ours:
        theirs.close()
        for _ in range(MICROBATCHES):
            ours.send(b"?")
            packet = ours.recv(8)
            now = time.monotonic_ns()
            assert len(packet) == 8, "the other process has ended"
            times.append((now - int.from_bytes(packet, "little")) / 1e3)
    return times[WARM:]


def show(name, times):
    times = sorted(times)
    low, high = times[len(times) // 20], times[-1 - len(times) // 20]
    print(f"  {name:28} {statistics.median(times):9.1f}   ({low:.1f} to {high:.1f})", flush=True)


def main():
    print(f"torch {torch.__version__}, isocost {isocost.__version__}, {os.cpu_count()} cores; microseconds to tensors "
          f"in Python, {MICROBATCHES - WARM} microbatches")
    print(f"a trainer that computes for {1e3 * COMPUTING_S:.0f} ms, and finds it")
    for size in WAITS[25]:
        show(f"{size >> 10:7} KiB, shared memory", find(size))
    for wait_ms, sizes in WAITS.items():
        print(f"a trainer that waits for {wait_ms} ms, from a complete microbatch on the node")
        show("a bare packet", bare_packets(wait_ms))
        for shared in (True, False):
            for size in sizes:
                show(f"{size >> 10:7} KiB, {'shared memory' if shared else 'socket'}", receive(size, shared, wait_ms))


if __name__ == "__main__":
    main()
