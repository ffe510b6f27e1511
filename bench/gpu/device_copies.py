"""How long a microbatch takes from a node's block of shared memory to a CUDA device: copied from the block, which is
registered with the CUDA runtime, and through PyTorch's pinned memory, as without registration.

Needs a CUDA device, torch, and ./run build with the Python that has it. Prints medians and the 5th and 95th percentile
of the milliseconds until the bytes are on the device, and of those that the calling thread is busy.
"""

import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "transport"))

import handover  # noqa: E402
import torch  # noqa: E402

from isocost.microbatches.device_copies import moved_tensors  # noqa: E402
from isocost.microbatches.microbatch import torch_tensors  # noqa: E402

MICROBATCHES = 100
WARM = 10


def copy(size, registered):
    """Returns seconds until the bytes have arrived, and of the calling thread, for each microbatch after warm-up."""
    times = []
    with handover.client(size, MICROBATCHES, shared=True, prefetch=2) as client:
        for _ in range(MICROBATCHES):
            raw = handover.take(client)
            if registered and (raw.pin is None or not raw.pin()):
                sys.exit("the CUDA runtime does not register the block")
            tensors = list(torch_tensors(raw).values())
            torch.cuda.synchronize()
            begun = time.perf_counter()
            moved = moved_tensors(tensors, "cuda")
            busy = time.perf_counter() - begun
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begun, busy))
            assert bool((moved[0] == ord("x")).all()), "other bytes than were sent"
            del raw, tensors, moved
    return times[WARM:]


def summary(values):
    values = sorted(1e3 * value for value in values)
    return f"{statistics.median(values):8.3f} ({values[len(values) // 20]:.3f} to {values[-1 - len(values) // 20]:.3f})"


def main():
    if not torch.cuda.is_available():
        sys.exit("device_copies.py needs a CUDA device")
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}; ms on the device, ms of the calling thread")
    for size in (1 << 20, 16 << 20, 128 << 20):
        for registered in (False, True):
            there, busy = zip(*copy(size, registered))
            print(f"{size >> 20:4} MiB  {'registered' if registered else 'pinned copy':11}  {summary(there)}  "
                  f"{summary(busy)}")


if __name__ == "__main__":
    main()
