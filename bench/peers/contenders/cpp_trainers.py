"""Trainers in C++ (bench/peers/cpp), which say on their standard output which samples a batch has: TorchLoader beside a
node of its own, and libtorch's DataLoader around libjpeg-turbo."""

import contextlib
import json
import os
import subprocess

import torch
from data import PROGRAM, TRAINERS

from contenders.geometry import native_size
from contenders.settings import SETTINGS

SET = SETTINGS["cpp_trainers"]
ISOLATE = ("on", "off")  # the variants of TorchLoader; those of DataLoader say how JPEG is decoded
BYTES_OF_A_PATCH = 14 * 14 * 3
COMPARED_BATCHES = 6


@contextlib.contextmanager
def started(*command, **more):
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, **more)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def node(work, data, isolate):
    """The endpoint of a node that delivers the files of all passes in their order."""
    with started(PROGRAM, "serve", "--data", data.shards, "--ranks", 1, "--global-batch-size", work.batch,
                 "--microbatches", 1, "--shuffle", SET["shuffle"], "--workers", SET["workers"], "--isolate", isolate,
                 "--bind", "tcp://127.0.0.1:*", cwd=data.directory, text=True) as process:
        yield next(line.split()[-1] for line in process.stdout if line.startswith("listening on "))


@contextlib.contextmanager
def trainer(work, data, variant, batches_with_bytes):
    with contextlib.ExitStack() as stack:
        if variant in ISOLATE:
            command = [TRAINERS / "torch_loader_trainer", stack.enter_context(node(work, data, variant))]
        else:
            files = data.directory / "files.txt"
            files.write_text("".join(f"{file}\n" for file in data.all_files))
            command = [TRAINERS / "data_loader_trainer", files, work.batch, SET["workers"],
                       *(["fast"] if variant == "fast" else [])]
        environment = {**os.environ, "BATCHES_WITH_BYTES": str(batches_with_bytes)}
        yield stack.enter_context(started(*command, env=environment))


def read(process):
    """Yields the line that the trainer prints for each batch, and its patches, if they follow."""
    for line in process.stdout:
        said = json.loads(line)
        raw = bytearray(process.stdout.read(said["bytes"]))
        yield said, torch.frombuffer(raw, dtype=torch.uint8).reshape(-1, BYTES_OF_A_PATCH) if raw else None
    if process.wait() != 0:
        raise SystemExit(f"the trainer ended with status {process.returncode}")


def patches_of(file):
    from PIL import Image  # here, so that tests of the rest need no package

    with Image.open(file) as image:
        width, height = native_size(*image.size)
    return width * height // 14**2


def checked(work, data, variant):
    """The patches of the first batches, after all samples of an epoch came once each, with as many patches as their
    sizes give."""
    wanted = {file: patches_of(file) for file in data.files}
    samples, first = [], []
    with trainer(work, data, variant, COMPARED_BATCHES) as process:
        for said, patches in read(process):
            for sample, count in zip(said["samples"], said["patches"]):
                if count != wanted[data.all_files[sample]]:
                    raise SystemExit(f"sample {sample} has {count} patches, and should have "
                                     f"{wanted[data.all_files[sample]]}")
            samples += said["samples"]
            if patches is not None:
                first.append(patches)
    if sorted(samples) != list(range(len(data.all_files))):
        raise SystemExit(f"{len(samples)} samples came, {len(set(samples))} different ones of {len(data.all_files)}")
    return first


def batches(work, data, variant, ordered):
    if ordered:
        yield from checked(work, data, variant)
        return
    with trainer(work, data, variant, 0) as process:
        for said, _ in read(process):
            yield said["samples"]
