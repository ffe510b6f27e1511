"""A client of handover_node: microbatches of one size, in shared memory or over the socket."""

import contextlib
import os
import pathlib
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.environ.get("ISOCOST_PYTHON", str(REPOSITORY / "build/release/python")))

from isocost import _isocost  # noqa: E402


@contextlib.contextmanager
def client(size, microbatches, shared, prefetch, wait_ms=2):
    """The raw client of a node that sends `microbatches` of `size` bytes, each `wait_ms` after it was asked for, or
    at 0 as soon as there is room; both end with the context."""
    program = REPOSITORY / "build/release/bench/nodes/handover_node"
    node = subprocess.Popen([program, str(size), str(microbatches), "on" if shared else "off", str(wait_ms)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with node:
        connected = _isocost.Client(endpoint=node.stdout.readline().strip(), rank=0, world_size=1, prefetch=prefetch,
                                    connect_timeout_s=10.0, start=None, server_key_file="", secret_key_file="",
                                    hardware="", layout=0, on_log=lambda *_: None)
        yield connected
        connected.close()
        node.stdin.close()


def take(connected):
    """The next microbatch, as a training loop takes it: the one before is acknowledged first."""
    connected.acknowledge()
    microbatch = connected.next()
    connected.use(*microbatch.position, 0.0)
    return microbatch
