"""Measures the cost of a microbatch to a trainer's Python thread: CPU time, whatever the node does meanwhile.

A node of its own serves texts, a sample to a microbatch. The trainer's thread takes each as PyTorch's tensors, reads
its tokens' shape, and reports its time, as a training loop does; the same loop without reports beside it. Each
microbatch is checked in a pass before. As this job has one rank, the node soon asks for the seconds of few steps;
measuring_bench has the cost of each kind.
Usage: python_microbatch_bench.py [--microbatches 4000] [--rounds 7]
"""

import argparse
import io
import pathlib
import statistics
import sys
import tarfile
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build/release"
sys.path.insert(0, str(BUILD / "python"))

WORDS = 40


def write_shard(directory, samples):
    header = tarfile.TarInfo()
    with open(directory / "texts.tar", "wb") as shard:
        for sample in range(samples):
            text = f"{sample:06} ".encode().ljust(7 * WORDS, b"x")
            header.name, header.size = f"{sample:06}.txt", len(text)
            out = io.BytesIO(header.tobuf(tarfile.USTAR_FORMAT) + text.ljust(512, b"\0"))
            shard.write(out.getvalue())
        shard.write(bytes(1024))


def loader_of(directory):
    import isocost

    return isocost.DataLoader(directory, global_batch_size=1, microbatches=1, shuffle=False, epochs=1, workers=1)


def check(directory, samples):
    with loader_of(directory) as loader:
        for i, microbatch in enumerate(loader):
            text = bytes(byte for byte in microbatch["input_ids"].flatten().tolist() if byte < 256)[:6]
            assert text == f"{i:06}".encode(), f"microbatch {i} has the text {text!r}"
        assert i + 1 == samples, "microbatches are missing"


def microseconds(directory, samples, reports):
    """CPU time of this thread for a microbatch, in microseconds."""
    with loader_of(directory) as loader:
        batches = iter(loader)
        for _ in range(samples // 10):  # connecting, the first tensors
            next(batches)
        began = time.thread_time()
        taken = 0
        for microbatch in batches:
            if reports:
                with loader.timed(microbatch):
                    assert len(microbatch["input_ids"])
            else:
                assert len(microbatch["input_ids"])
            taken += 1
        return 1e6 * (time.thread_time() - began) / taken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--microbatches", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isocost-python-bench") as scratch:
        directory = pathlib.Path(scratch)
        write_shard(directory, arguments.microbatches)
        check(directory, arguments.microbatches)
        taken = {False: [], True: []}
        for _ in range(arguments.rounds):
            for reports, values in taken.items():
                values.append(microseconds(directory, arguments.microbatches, reports))
    print(f"medians of {arguments.rounds} rounds (least to most), of CPU time for a microbatch")
    for reports, values in taken.items():
        print(f"{'taken and reported' if reports else 'taken':20} {statistics.median(values):6.1f} us "
              f"({min(values):.1f} to {max(values):.1f})")


if __name__ == "__main__":
    main()
