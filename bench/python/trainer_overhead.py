"""Measures the CPU time that isocost.integrations.transformers adds to a step of transformers' Trainer.

    ./run bench trainer_overhead     # after ./run test --torch2, which installs what is needed below build/torch2
    python bench/python/trainer_overhead.py [--steps 30] [--microbatches 2 8] [--rounds 3] [--json FILE]

A Qwen2.5-VL with random weights is trained on the CPU, on conversations with and without pictures. cProfile counts the
CPU time of the training thread only, once ten steps have warmed up: that of the integration's own frames, with the
C functions and tensor operations that these call themselves; of the package's other frames, which take and report
microbatches and make the model's arguments; and of the whole step, which has the model's too. The profiler's own time
is in all three. Calls are compared with the steps and microbatches that were trained before anything is printed.
Needs torch, transformers, accelerate, tokenizers, jinja2 and Pillow.
"""

import argparse
import cProfile
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
os.environ.setdefault("ISOCOST_PROGRAM", str(BUILD / "isocost"))
sys.path[:0] = [str(ROOT / "tests" / "python")]
sys.path.append(str(BUILD / "python"))
import torch  # noqa: E402
import transformers  # noqa: E402

import isocost  # noqa: E402
import isocost.integrations.transformers as integration  # noqa: E402
import model_directories  # noqa: E402
from finetune_test import write_llava  # noqa: E402

torch.set_num_threads(1)
GLOBAL_BATCH, WARM_UP = 16, 10
OWN = pathlib.Path(integration.__file__)
PACKAGE = OWN.parents[1]


class Frees(transformers.Trainer):
    """Drops what a microbatch leaves, its tensors and the model's graph, in a frame of its own: the profiler counts the
    time of that for the frame that called."""

    def training_step(self, model, inputs, *rest):
        loss = super().training_step(model, inputs, *rest)
        del inputs
        return loss


class Profiled(transformers.TrainerCallback):
    """Profiles the steps after the first ones."""

    def __init__(self):
        self.profile = cProfile.Profile(time.thread_time, builtins=False)
        self.cpu = 0.0

    def on_step_end(self, args, state, control, **rest):
        if state.global_step == WARM_UP:
            self.cpu -= time.thread_time()
            self.profile.enable()
        elif state.global_step == state.max_steps:
            self.profile.disable()
            self.cpu += time.thread_time()


def write_data(directory):
    files = directory / "files"
    files.mkdir()
    subprocess.run([os.environ["ISOCOST_PROGRAM"], "make-shards", write_llava(files, 4 * GLOBAL_BATCH),
                    directory / "shards"], check=True, capture_output=True)
    return model_directories.make(directory / "model", "qwen2_5_vl", model=True)


def train(directory, model, microbatches, steps):
    settings = transformers.TrainingArguments(directory / "out", max_steps=WARM_UP + steps, save_strategy="no",
                                              logging_steps=1000, report_to=[], disable_tqdm=True, use_cpu=True)
    profiled = Profiled()
    with isocost.DataLoader(directory / "shards", model=model, global_batch_size=GLOBAL_BATCH,
                            microbatches=microbatches) as loader:
        trained = transformers.AutoModelForImageTextToText.from_pretrained(model)
        trainer = integration.trainer_class(Frees)(trained, settings, train_dataset=loader, callbacks=[profiled])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return profiled


def milliseconds(directory, model, microbatches, steps):
    """Milliseconds of CPU time a step, of the integration's own frames, of the package's others, and of all."""
    profiled = train(directory, model, microbatches, steps)
    own = others = 0.0
    calls = {}
    for entry in profiled.profile.getstats():
        file = pathlib.Path(getattr(entry.code, "co_filename", ""))
        if file == OWN:
            own += entry.inlinetime
            calls[entry.code.co_name] = entry.callcount
        elif PACKAGE in file.parents:
            others += entry.inlinetime
    counted = calls["training_step"], calls["compute_loss"]
    assert counted == (steps, steps * microbatches), f"steps and microbatches of the profile: {counted}"
    return [1e3 * seconds / steps for seconds in (own, others, profiled.cpu)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--microbatches", type=int, nargs="*", default=[2, 8], help="of a step (default: 2 and 8)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="file for the figures of all rounds")
    arguments = parser.parse_args()
    taken = {count: [] for count in arguments.microbatches}
    with tempfile.TemporaryDirectory(prefix="isocost-trainer-bench") as scratch:
        directory = pathlib.Path(scratch)
        model = write_data(directory)
        for _ in range(arguments.rounds):
            for count, rounds in taken.items():
                rounds.append(milliseconds(directory, model, count, arguments.steps))
    print("| microbatches a step | integration's own frames | package's other frames | whole step |\n|---|---|---|---|")
    for count, rounds in taken.items():
        cells = [f"{statistics.median(of):.2f} ms ({min(of):.2f} to {max(of):.2f})" for of in zip(*rounds)]
        print(f"| {count} | {' | '.join(cells)} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(taken) + "\n")


if __name__ == "__main__":
    main()
