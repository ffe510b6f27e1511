"""Measures what `loader.timed` costs a trainer's Python thread: with a step that is measured, and with one whose
seconds the node does not ask for, where it measures nothing.

A node of its own serves texts. The block holds nothing, so that all of its time is that of measuring. Prints medians of
the thread's CPU time for a block with least and most, how much of a measured one the loader itself reports as
measuring, and the same for blocks with a backward pass in them. Both kinds of steps must come.
Usage: measuring_bench.py [--blocks 2000] [--rounds 7]
"""

import argparse
import itertools
import pathlib
import statistics
import sys
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build/release"
sys.path.insert(0, str(BUILD / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from python_microbatch_bench import write_shard  # noqa: E402

SAMPLES = 400


def microbatches(loader):
    """A microbatch of each kind: measured, and not."""
    kinds = {}
    for microbatch in itertools.islice(loader, 10 * SAMPLES):
        kinds.setdefault(microbatch.seconds_wanted, microbatch)
        if len(kinds) == 2:
            return kinds[True], kinds[False]
        loader.report(microbatch, 0.01)
    raise AssertionError("every step was measured")


def microseconds(blocks, block, *arguments):
    """CPU time of this thread for a block, in microseconds."""
    began = time.thread_time()
    for _ in range(blocks):
        block(*arguments)
    return 1e6 * (time.thread_time() - began) / blocks


def rounds_of(count, blocks, block, *arguments):
    figures = [microseconds(blocks, block, *arguments) for _ in range(count + 1)][1:]
    return statistics.median(figures), min(figures), max(figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    import torch

    import isocost

    weights = torch.ones(8, requires_grad=True)
    with tempfile.TemporaryDirectory() as name:
        write_shard(pathlib.Path(name), SAMPLES)
        with isocost.DataLoader(name, global_batch_size=6, microbatches=6, endless=True, workers=1) as loader:
            measured, unmeasured = microbatches(loader)
            recorder = loader.recorder

            def block(microbatch, work):
                with loader.timed(microbatch):
                    work()
                recorder._waiting.clear()  # Nothing is sent: a microbatch is reported once.  # noqa: SLF001

            def nothing():
                pass

            def backward():
                (weights * 2).sum().backward()

            print(f"{'block':34} {'us':>7} {'least':>7} {'most':>7}")
            for title, work in (("nothing", nothing), ("a backward pass", backward)):
                plain = rounds_of(arguments.rounds, arguments.blocks, work)
                print(f"{title + ', alone':34} {plain[0]:7.2f} {plain[1]:7.2f} {plain[2]:7.2f}")
                for kind, microbatch in (("not measured", unmeasured), ("measured", measured)):
                    before = recorder.measuring_s
                    figures = rounds_of(arguments.rounds, arguments.blocks, block, microbatch, work)
                    told = 1e6 * (recorder.measuring_s - before) / ((arguments.rounds + 1) * arguments.blocks)
                    text = f", of which {told:.2f} us are reported as measuring" if microbatch is measured else ""
                    print(f"{title + ', ' + kind:34} {figures[0]:7.2f} {figures[1]:7.2f} {figures[2]:7.2f}{text}")


if __name__ == "__main__":
    main()
