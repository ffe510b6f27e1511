"""Compares isocost.DataLoader with torch.utils.data.DataLoader and Pillow over the same pictures and captions.

    ./run build && python3 bench/python/loader_bench.py DATA [--samples 512] [--rounds 5] [--json FILE]

DATA is a directory of WebDataset shards, e.g. build/demo/shards, of which the samples of pictures and text are taken.
The contenders produce the tensors of the recipe native28: patches [P, 588] of the native resolution, and packed byte
tokens. First they are compared: tokens must be equal; patches may differ by rounding and by the filter. Then rounds
measure each in turn: samples per second, CPU seconds per sample (of child processes too), and seconds to the first
batch. Needs torch, numpy and Pillow.
"""

import argparse
import io
import json
import math
import os
import pathlib
import statistics
import sys
import tarfile
import tempfile
import time

import numpy
import torch
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "build" / "release" / "python"))
import isocost  # noqa: E402

BATCH = 16
MAX_PATCHES = 4096
PICTURES = (".png", ".jpg", ".jpeg", ".webp")


def read_samples(directory, most):
    """[(key, [(name, bytes)])] of samples that hold only pictures and text."""
    samples = {}
    for shard in sorted(pathlib.Path(directory).glob("*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                key, _, name = member.name.partition(".")
                samples.setdefault(key, []).append((name, tar.extractfile(member).read()))
    kept = [(key, parts) for key, parts in samples.items()
            if all(("." + name).endswith((".txt",) + PICTURES) for name, _ in parts)]
    return kept[:most]


def write_shards(samples, directory):
    for first in range(0, len(samples), 128):
        with tarfile.open(directory / f"bench-{first:06}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for key, parts in samples[first:first + 128]:
                for name, body in parts:
                    member = tarfile.TarInfo(f"{key}.{name}")
                    member.size = len(body)
                    tar.addfile(member, io.BytesIO(body))


def target(width, height):
    """Width and height in pixels that native28 scales a picture to."""
    most = MAX_PATCHES // 4
    across, down = (max(1, (side + 14) // 28) for side in (width, height))
    if across * down > most:
        across, down = (min(max(math.isqrt(most * width // height), 1), across, most),
                        min(max(math.isqrt(most * height // width), 1), down, most))
    return 28 * across, 28 * down


def patches(body):
    picture = Image.open(io.BytesIO(body))
    if picture.mode in ("RGBA", "LA", "P"):
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture.convert("RGBA"))
    size = target(*picture.size)
    pixels = numpy.asarray(picture.convert("RGB").resize(size, Image.BILINEAR))
    rows, columns = size[1] // 28, size[0] // 28
    return pixels.reshape(rows, 2, 14, columns, 2, 14, 3).transpose(0, 3, 1, 4, 2, 5, 6).reshape(-1, 588)


class PillowDataset(torch.utils.data.Dataset):
    """Reads parts from the shards by offset."""

    def __init__(self, directory):
        self.samples = {}
        for shard in sorted(pathlib.Path(directory).glob("*.tar")):
            with tarfile.open(shard) as tar:
                for member in tar:
                    key, _, name = member.name.partition(".")
                    self.samples.setdefault(key, []).append((name, shard, member.offset_data, member.size))
        self.samples = list(self.samples.values())

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        tokens, pictures = [256], []
        for name, shard, offset, size in self.samples[index]:
            with open(shard, "rb") as file:
                file.seek(offset)
                body = file.read(size)
            if name.endswith("txt"):
                tokens += body
            else:
                pictures.append(torch.from_numpy(patches(body)))
                tokens += [258] * (len(pictures[-1]) // 4)
        return torch.tensor(tokens + [257]), pictures


def pack(samples):
    pictures = [picture for _, own in samples for picture in own]
    return {"input_ids": torch.cat([tokens for tokens, _ in samples]),
            "vision_patches": torch.cat(pictures) if pictures else torch.empty(0, 588, dtype=torch.uint8)}


def pillow(directory, workers):
    loader = torch.utils.data.DataLoader(PillowDataset(directory), batch_size=BATCH, num_workers=workers,
                                         collate_fn=pack)
    return iter(loader), lambda: None


def ours(directory, **options):
    loader = isocost.DataLoader(directory, global_batch_size=BATCH, microbatches=1, shuffle=False, epochs=1, workers=2,
                                **options)
    return (microbatch.tensors for microbatch in loader), loader.close


def show_equal(directory):
    """Exits if the contenders' batches differ by more than their filters explain. Returns the mean pixel difference."""
    ours_batches, close = ours(directory, node=isocost.NodeOptions(balance="in-order"))
    theirs, _ = pillow(directory, 0)
    differences, count = 0.0, 0
    for our, their in zip(ours_batches, theirs):
        if not torch.equal(our["input_ids"], their["input_ids"]):
            raise SystemExit("the contenders' tokens differ")
        if "vision_patches" in our:
            pixels = our["vision_patches"].int() - their["vision_patches"].int()
            differences += float(pixels.abs().sum())
            count += pixels.numel()
    close()
    if count == 0 or differences / count > 4:
        raise SystemExit(f"the contenders' patches differ by {differences / max(1, count):.1f} of 255 on average")
    return differences / count


def cpu_seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(make, samples):
    cpu, start = cpu_seconds(), time.perf_counter()
    batches, close = make()
    next(batches)
    first = time.perf_counter() - start
    for _ in batches:
        pass
    seconds = time.perf_counter() - start
    close()
    del batches  # torch's workers are joined and counted
    return {"samples_per_s": samples / seconds, "cpu_ms_per_sample": 1e3 * (cpu_seconds() - cpu) / samples,
            "first_s": first}


def overhead(directory, rounds):
    """Returns the median of each round: microseconds that Python takes to hand out a microbatch of a picture and text
    that is ready. All that are measured have been prefetched, so that no decoder competes for the cores."""
    medians = []
    for _ in range(rounds):
        with isocost.DataLoader(directory, global_batch_size=2, microbatches=1, shuffle=False, epochs=1, prefetch=128,
                                node=isocost.NodeOptions(plan_ahead=200)) as loader:
            iterator = iter(loader)
            next(iterator)
            time.sleep(2)
            spent = []
            for _ in range(100):
                start = time.perf_counter()
                microbatch = next(iterator)
                spent.append(time.perf_counter() - start - microbatch.waited_s)
        medians.append(1e6 * statistics.median(spent))
    return medians


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="isocost-bench-") as directory:
        directory = pathlib.Path(directory)
        samples = read_samples(arguments.data, arguments.samples)
        write_shards(samples, directory)
        difference = show_equal(directory)
        contenders = {"isocost": lambda: ours(directory), "torch, 0 workers": lambda: pillow(directory, 0),
                      "torch, 2 workers": lambda: pillow(directory, 2)}
        runs = {name: [] for name in contenders}
        for _ in range(arguments.rounds):
            for name, make in contenders.items():
                runs[name].append(measure(make, len(samples)))
        result = {"samples": len(samples), "mean_pixel_difference": difference,
                  "contenders": {name: {key: spread([run[key] for run in own]) for key in own[0]}
                                 for name, own in runs.items()},
                  "python_overhead_us": spread(overhead(directory, arguments.rounds))}
    print(f"{len(samples)} samples of pictures and text, {arguments.rounds} rounds; median (least to most). Tokens are "
          f"equal, pixels differ by {difference:.2f} of 255 on average")
    print(f"{'':18}{'samples/s':>24}{'CPU ms/sample':>24}{'first batch, s':>24}")
    for name, own in result["contenders"].items():
        cells = (f"{v['median']:.4g} ({v['least']:.4g} to {v['most']:.4g})" for v in own.values())
        print(f"{name:18}" + "".join(f"{cell:>24}" for cell in cells))
    own = result["contenders"]
    for name in list(own)[1:]:
        ratio = own["isocost"]["samples_per_s"]["median"] / own[name]["samples_per_s"]["median"]
        print(f"isocost gives {ratio:.2f} times the samples/s of {name}")
    print("Python between client and loop, us per microbatch: {median:.0f} ({least:.0f} to {most:.0f})".format(
        **result["python_overhead_us"]))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
