"""Measures the cost of decoding in worker processes: `isocost check` of the demo's shards with and without, in turn.

Prints medians and spreads of throughput and CPU time, and their ratios. The answers must be equal.
"""

import json
import os
import pathlib
import statistics
import subprocess
import time

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build"
PASSES = 7


def check(isolate):
    """(answer, seconds, CPU seconds of the program and its workers)"""
    began = time.monotonic()
    process = subprocess.Popen([BUILD / "release/isocost", "check", "--json", "--isolate", isolate,
                                BUILD / "demo/shards"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    answer = json.load(process.stdout)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it has been waited for
    return answer, time.monotonic() - began, usage.ru_utime + usage.ru_stime


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def main():
    wall = {"off": [], "on": []}
    cpu = {"off": [], "on": []}
    answers = {isolate: check(isolate)[0] for isolate in wall}  # warms the page cache, too
    assert answers["on"] == answers["off"], "with worker processes the answer is another one"
    for _ in range(PASSES):
        for isolate in wall:
            answer, seconds, cpu_seconds = check(isolate)
            assert answer == answers["off"]
            wall[isolate].append(seconds)
            cpu[isolate].append(cpu_seconds)
    samples = answers["off"]["samples"]
    for isolate in wall:
        rate = samples / statistics.median(wall[isolate])
        cost_ms = 1e3 * statistics.median(cpu[isolate]) / samples
        print(f"isolate {isolate:3}: {rate:6.1f} samples/s (spread {spread(wall[isolate]):.0%}), "
              f"{cost_ms:.3f} ms of CPU time a sample (spread {spread(cpu[isolate]):.0%})")
    ratios = [[after / before for before, after in zip(times["off"], times["on"])] for times in (wall, cpu)]
    print(f"on / off, medians of {PASSES} pairs: {statistics.median(ratios[0]):.3f} of the time, "
          f"{statistics.median(ratios[1]):.3f} of the CPU time")


if __name__ == "__main__":
    main()
