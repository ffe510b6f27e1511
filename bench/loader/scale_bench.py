"""A data set of many shards and samples: 5,000 shards, 10^6 samples of text.

Prints the seconds and the memory of indexing it, of opening it with its indexes, and until the first batch, as the
shards have their text and with tokens for a model. Needs 2 GB of disk in TMPDIR for the time it runs.
Usage: scale_bench.py [--shards 5000] [--samples 200]
"""

import argparse
import array
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

BUILD = pathlib.Path(__file__).resolve().parents[2] / "build/release"
sys.path.insert(0, str(BUILD / "python"))


def make_shards(directory, shards, samples):
    text = b"a sample of a few words, as a caption has them"
    header = tarfile.TarInfo()
    header.size = len(text)
    for shard in range(shards):
        out = io.BytesIO()
        for sample in range(samples):
            header.name = f"{shard:05}-{sample:04}.txt"
            out.write(header.tobuf(tarfile.USTAR_FORMAT) + text.ljust(512, b"\0"))
        (directory / f"{shard:05}.tar").write_bytes(out.getvalue() + bytes(1024))
        if sys.stderr.isatty():
            print(f"\rshard {shard + 1} of {shards}", end="", file=sys.stderr)


def timed(command):
    """(standard output, seconds, MiB at the peak)"""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command}: status {process.returncode}"
    return output, time.monotonic() - began, usage.ru_maxrss / 1024


def resident_mib(process):
    lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def make_model(directory):
    """The files of a model's directory that a node reads, with a tokenizer that nobody uses."""
    directory.mkdir()
    for name, document in (("config.json", {"model_type": "qwen2_vl", "image_token_id": 9, "vision_config": {}}),
                           ("preprocessor_config.json", {}), ("tokenizer.json", {}), ("tokenizer_config.json", {})):
        (directory / name).write_text(json.dumps(document))
    return directory


def write_tokens(shards, model):
    """Seconds that writing takes: twelve tokens for each sample."""
    from isocost.tokens.workers import Settings

    opened = Settings(str(shards), "", str(model)).open()
    # Ids, label marks, ends of turns and weights (none), and no reason why the sample is bad.
    sample = (array.array("I", range(100, 112)).tobytes(), bytes([0] * 6 + [1] * 6), b"", b"", "")
    began = time.monotonic()
    for i, (_name, samples, _current, _usable, _stale) in enumerate(opened.shards):
        opened.write(i, [sample] * samples)
    return time.monotonic() - began


def serve(shards, total, *options):
    """(seconds until it listens, MiB then, seconds until the first batch has come)"""
    import isocost

    began = time.monotonic()
    command = [BUILD / "isocost", "serve", "--data", shards, "--ranks", "1", "--global-batch-size", "512",
               "--bind", "tcp://127.0.0.1:*", "--bad-samples-file", shards.parent / "bad.jsonl", *options]
    node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        endpoint = node.stdout.readline().split()[-1]
        listening = time.monotonic() - began
        memory = resident_mib(node.pid)
        loader = isocost.DataLoader(endpoint, rank=0, world_size=1)
        microbatch = next(iter(loader))
        first = time.monotonic() - began
        assert len(microbatch.sample_ids) > 0 and max(microbatch.sample_ids) < total
        del loader
    finally:
        node.kill()
        node.wait()
    return listening, memory, first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=5000)
    parser.add_argument("--samples", type=int, default=200, help="in each shard")
    given = parser.parse_args()
    total = given.shards * given.samples
    directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-scale-"))
    try:
        shards = directory / "shards"
        shards.mkdir()
        make_shards(shards, given.shards, given.samples)
        output, seconds, memory = timed([BUILD / "isocost", "index", shards])
        assert f"{total} samples" in output.replace(",", ""), output
        print(f"{given.shards} shards, {total} samples")
        print(f"indexed:      {seconds:6.1f} s, {memory:6.0f} MiB at the peak")
        _, seconds, memory = timed([BUILD / "isocost", "index", shards])
        print(f"opened again: {seconds:6.1f} s, {memory:6.0f} MiB at the peak")
        listening, memory, first = serve(shards, total)
        print(f"serve listens after {listening:.1f} s with {memory:.0f} MiB; the first batch comes after {first:.1f} s")
        model = make_model(directory / "model")
        print(f"tokens written in {write_tokens(shards, model):.1f} s")
        listening, memory, first = serve(shards, total, "--model", model)
        print(f"with tokens: listens after {listening:.1f} s with {memory:.0f} MiB; the first batch comes after "
              f"{first:.1f} s")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
