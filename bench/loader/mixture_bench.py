"""Measures the CPU time a sample of a mixture of three data sets, against one data set of the same shards.

The works are the demo's photographs, and short texts, which cost so little that what is done for each step shows. Each
pass is a process of its own, with an embedded node of two workers and one rank that drops what it receives. CPU seconds
are those of this process from the first microbatch to the last. In turn, round by round: one data set, a mixture by
size, and a mixture with proportions and as many steps. Prints medians and spreads, and the ratio to the one data set of
the same round.

Samples are compared in each pass: a mixture by size has those of the one data set, each once; one with proportions has
as many of each source as its proportions say.
"""

import collections
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
ROUNDS = 7
BATCH = 24
PHOTOGRAPHS = 480  # a multiple of a batch and of three
TEXTS = 24_000
PROPORTIONS = {"a": 3, "b": 2, "c": 1}  # sum 6, a divisor of BATCH: each step has the same counts
ONE, BY_SIZE, PROPORTIONAL = "one data set", "mixture by size", "mixture with proportions"
DEADLINE_S = 300


def write_shards(directory, files):
    """Three directories of shards, a third of the samples in each, and the two mixtures of them."""
    for number, name in enumerate(PROPORTIONS):
        lines = [json.dumps({"key": f"{i:05}", "parts": [{"name": path.suffix[1:], "file": str(path)}]})
                 for i, path in enumerate(files) if i % len(PROPORTIONS) == number]
        manifest = directory / f"{name}.jsonl"
        manifest.write_text("\n".join(lines) + "\n")
        for command in (["make-shards", manifest, directory / "shards" / name], ["index", directory / "shards" / name]):
            subprocess.run([BUILD / "isocost", *command], check=True, capture_output=True)

    def mixture(head, proportion):
        return head + "".join(f'[[source]]\nname = "{name}"\npath = "shards/{name}"\n{proportion(share)}\n'
                              for name, share in PROPORTIONS.items())

    (directory / "by_size.toml").write_text(mixture("", lambda _share: ""))
    (directory / "proportions.toml").write_text(
        mixture(f"steps = {len(files) // BATCH}\n", lambda share: f"proportion = {share}"))
    return {ONE: directory / "shards/{a,b,c}", BY_SIZE: directory / "by_size.toml",
            PROPORTIONAL: directory / "proportions.toml"}


def one_pass(data):
    """Takes all samples in this process; prints the CPU seconds, and how many came of each source."""
    sys.path.insert(0, str(BUILD / "python"))
    import isocost

    def cpu_seconds():
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    keys, began = [], None
    with isocost.DataLoader(data, global_batch_size=BATCH, microbatches=1, epochs=1, workers=2) as loader:
        for microbatch in loader:
            began = cpu_seconds() if began is None else began
            keys += microbatch.sample_keys
    seconds = cpu_seconds() - began
    counts = collections.Counter(key.split("/")[0] for key in keys)
    print(json.dumps({"seconds": seconds, "samples": len(keys), "distinct": len(set(keys)), "counts": counts}))


def measure(data, kind, samples):
    done = subprocess.run([sys.executable, "-B", __file__, data], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=DEADLINE_S)
    answer = json.loads(done.stdout)
    assert answer["samples"] == samples, answer
    if kind == PROPORTIONAL:
        assert answer["counts"] == {name: samples * share // sum(PROPORTIONS.values())
                                    for name, share in PROPORTIONS.items()}, answer
    else:
        assert answer["distinct"] == samples, answer
        assert set(answer["counts"].values()) == {samples // len(PROPORTIONS)}, answer
    return answer["seconds"] / (samples - BATCH)


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def compare(name, files, directory):
    data = write_shards(directory, files)
    costs = {kind: [] for kind in data}
    for _ in range(ROUNDS + 1):
        for kind, each in data.items():
            costs[kind].append(measure(each, kind, len(files)))
    for kind, own in costs.items():
        counted = own[1:]  # without the round that warms the caches
        ratios = [mixed / plain for mixed, plain in zip(counted, costs[ONE][1:])]
        print(f"{len(files):6} {name:12} {kind:25} {spread([1e6 * cost for cost in counted], 1)} µs of CPU a sample, "
              f"{spread(ratios, 3)} of one data set")


def main():
    photographs = sorted((ROOT / "build/demo/made").glob("*.jpg"))
    assert photographs, "no photographs: ./run demo --media-only makes them"
    with tempfile.TemporaryDirectory(prefix="isocost-mixture-bench-") as scratch:
        root = pathlib.Path(scratch)
        (root / "texts").mkdir()
        texts = []
        for i in range(TEXTS):
            texts.append(root / f"texts/{i:05}.txt")
            texts[-1].write_text(f"A caption of some words, and its number {i}. " * (1 + i % 3))
        for name, files in (("photographs", [photographs[i % len(photographs)] for i in range(PHOTOGRAPHS)]),
                            ("texts", texts)):
            (root / name.upper()).mkdir()
            compare(name, files, root / name.upper())


if __name__ == "__main__":
    if len(sys.argv) == 2:
        one_pass(sys.argv[1])
    else:
        main()
