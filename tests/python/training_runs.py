"""Runs of a Trainer in processes of their own, and what they print."""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import PROGRAM, TIMEOUT, torchrun

NEEDED = ("transformers", "tokenizers", "jinja2", "PIL", "torchvision", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import model_directories
    from finetune_test import write_llava

HERE = pathlib.Path(__file__).parent
RELATIVE = 1e-5
SAMPLES, HELD_OUT = 46, 13


class Lines:
    """What a run printed: losses, norms of gradients, losses of evaluations, and samples, each by its step."""

    def __init__(self, text):
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        self.losses, self.norms, self.evaluated, self.epochs, self.tokens, self.trl_tokens = (
            {line["step"]: line[name] for line in lines if name in line}
            for name in ("loss", "grad_norm", "eval_loss", "epoch", "num_input_tokens_seen", "num_tokens"))
        self.samples = {}
        for line in lines:
            if "ids" in line:
                self.samples.setdefault(line["at"] + 1, []).extend(line["ids"])


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Runs(unittest.TestCase):
    SCRIPT = HERE / "trainer_run.py"
    DATA = {"train": SAMPLES, "held_out": HELD_OUT}

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-trainer-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        for name, samples in cls.DATA.items():
            files = cls.directory / f"{name}_files"
            files.mkdir()
            subprocess.run([PROGRAM, "make-shards", write_llava(files, samples), cls.directory / name,
                            "--samples-per-shard", "16"], check=True, capture_output=True, timeout=TIMEOUT)
        cls.models = {}

    def model(self, family):
        if family not in self.models:
            self.models[family] = model_directories.make(self.directory / family, family, model=True)
        return self.models[family]

    def run_with(self, family, *more, ranks=1, output="out", expect=0):
        """What a run prints. Its checkpoints are in the folder `output`."""
        return Lines(self.printed(family, "--held-out", self.directory / "held_out", *more, ranks=ranks, output=output,
                                  expect=expect))

    def printed(self, family, *more, ranks=1, output="out", expect=0):
        arguments = [self.SCRIPT, "--data", self.directory / "train", "--model", self.model(family), "--output",
                     self.directory / output, *more]
        if ranks > 1:
            return torchrun(arguments, ranks, expect).stdout
        done = subprocess.run([sys.executable, "-B", *map(str, arguments)], capture_output=True, text=True,
                              timeout=2 * TIMEOUT, check=False)
        self.assertEqual(done.returncode, expect, done.stderr)
        return done.stdout

    def assert_equal(self, found, expected, first=1, within=RELATIVE):
        for name in ("losses", "norms", "evaluated"):
            ours, theirs = getattr(found, name), getattr(expected, name)
            self.assertEqual(sorted(ours), [step for step in sorted(theirs) if step >= first], name)
            for step, value in ours.items():
                self.assertAlmostEqual(value / theirs[step], 1, delta=within, msg=f"{name} of step {step}")
