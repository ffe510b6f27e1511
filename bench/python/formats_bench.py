"""Measures whether a format costs speed: the demo's photographs as WebDataset shards, as a data set of Energon, as MDS,
written by Mosaic Streaming, and as records in place. Energon's needs megatron-energon, MDS mosaicml-streaming; without
them their rows are skipped.

Each pass is a process of its own with an embedded node of two workers, which delivers one epoch to one rank, after the
index was made. Prints medians of samples a second from the first microbatch on, with spreads, and the ratio to the
shards of the same round. The tensors are compared in each pass: their bytes have the same sum.
"""

import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/isocost"
ROUNDS = 7
BATCH = 8
PHOTOGRAPHS = 640
SHARDS, RECORDS, ENERGON, MDS = "WebDataset", "records in place", "Energon", "MDS"
DEADLINE_S = 300


def is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that should hold it
        return False


def write_shards(photographs, directory):
    lines = [json.dumps({"key": f"{i:05}", "parts": [{"name": "jpg", "file": str(path)}]})
             for i, path in enumerate(photographs)]
    manifest = directory.parent / f"{directory.name}.jsonl"
    manifest.write_text("\n".join(lines) + "\n")
    subprocess.run([PROGRAM, "make-shards", manifest, directory, "--samples-per-shard", "160"], check=True,
                   capture_output=True)


def write_records(photographs, directory):
    directory.mkdir()
    lines = [json.dumps({"key": f"{i:05}", "parts": [{"name": "jpg", "file": str(path)}]})
             for i, path in enumerate(photographs)]
    (directory / "photographs.jsonl").write_text("\n".join(lines) + "\n")


def write_energon(photographs, directory):
    write_shards(photographs, directory)
    command = "from megatron.energon.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", command, "prepare", directory, "--non-interactive", "--no-progress",
                    "--num-workers", "1", "--split-parts", "train:.*", "--sample-type", "ImageSample", "--field-map",
                    json.dumps({"image": "jpg"})], check=True, capture_output=True)


def write_mds(photographs, directory):
    from streaming import MDSWriter

    with MDSWriter(out=str(directory), columns={"image": "bytes"}, size_limit=1 << 26) as out:
        for path in photographs:
            out.write({"image": path.read_bytes()})


def one_pass(data):
    """Takes all samples in this process; prints how fast, and the sum of their bytes."""
    sys.path.insert(0, str(ROOT / "build/release/python"))
    import torch

    import isocost

    samples, total, first = 0, 0, None
    with isocost.DataLoader(data, global_batch_size=BATCH, microbatches=1, epochs=1, workers=2) as loader:
        for microbatch in loader:
            first = time.monotonic() if first is None else first
            samples += len(microbatch.sample_ids)
            total += int(microbatch["vision_patches"].view(torch.uint8).sum(dtype=torch.int64))
    print(json.dumps({"rate": (samples - BATCH) / (time.monotonic() - first), "samples": samples, "sum": total}))


def measure(data):
    done = subprocess.run([sys.executable, "-B", __file__, data], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=DEADLINE_S)
    return json.loads(done.stdout)


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    made = sorted((ROOT / "build/demo/made").glob("*.jpg"))
    assert made, "no photographs: ./run demo --media-only makes them"
    photographs = [made[i % len(made)] for i in range(PHOTOGRAPHS)]
    writers = {SHARDS: write_shards, RECORDS: write_records, ENERGON: write_energon, MDS: write_mds}
    for name, package in ((ENERGON, "megatron.energon"), (MDS, "streaming")):
        if not is_there(package):
            print(f"{name}: skipped: {package} is not installed")
            del writers[name]
    with tempfile.TemporaryDirectory(prefix="isocost-formats-") as scratch:
        data = {name: pathlib.Path(scratch) / name.split()[0] for name in writers}
        for name, write in writers.items():
            write(photographs, data[name])
        data[RECORDS] /= "photographs.jsonl"
        rates = {name: [] for name in data}
        expected = measure(data[SHARDS])
        for _ in range(ROUNDS + 1):
            for name, each in data.items():
                found = measure(each)
                assert (found["samples"], found["sum"]) == (PHOTOGRAPHS, expected["sum"]), (name, found, expected)
                rates[name].append(found["rate"])
        print(f"{PHOTOGRAPHS} photographs, medians of {ROUNDS} rounds (least to most)")
        for name, own in rates.items():
            counted = own[1:]  # without the round that indexes and warms the caches
            ratios = [rate / shards for rate, shards in zip(counted, rates[SHARDS][1:])]
            print(f"{name:17} {spread(counted, 0)} samples/s, {spread(ratios, 3)} of the shards")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        one_pass(sys.argv[1])
    else:
        main()
