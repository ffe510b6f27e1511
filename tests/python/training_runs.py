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
STEPS, DIES_AFTER, SAVED = 12, 5, 4  # of two epochs; a run that dies has saved two checkpoints


class Lines:
    """The output of a run: losses, norms of gradients, losses of evaluations, and samples, each by its step; and its
    log of evaluations."""

    def __init__(self, text):
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        self.losses, self.norms, self.evaluated, self.epochs, self.tokens, self.trl_tokens, self.auxiliary = (
            {line["step"]: line[name] for line in lines if name in line}
            for name in ("loss", "grad_norm", "eval_loss", "epoch", "num_input_tokens_seen", "num_tokens", "aux_loss"))
        self.evaluations = [line for line in lines if "eval_loss" in line]
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
        """Returns the output of a run. Its checkpoints are in the folder `output`."""
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

    def assert_all_samples(self, run):
        """Asserts that each of the two epochs had every sample once."""
        for epoch in (1, 2):
            ids = [sample for step, of_step in run.samples.items() if (step - 1) * 2 // STEPS == epoch - 1
                   for sample in of_step]
            self.assertEqual(sorted(ids), list(range(SAMPLES)))

    def check_killed(self, *run, ranks, undisturbed=1):
        """Kills a run of two ranks, which continues with each of these numbers of ranks as one that was not killed, of
        `undisturbed` ranks."""
        outputs = self.id().split(".")[-1]
        whole = self.run_with(*run, ranks=undisturbed, output=f"{outputs}/whole")
        self.assert_all_samples(whole)
        killed = self.run_with(*run, "--dies-after", DIES_AFTER, ranks=2, output=f"{outputs}/killed", expect=9)
        folder = self.directory / outputs / "killed"
        unfinished = folder / f"checkpoint-{SAVED + 2}"
        unfinished.mkdir()  # A run that ends while it saves leaves this.
        (unfinished / "isocost.json").write_text("{}")
        for number in ranks:
            shutil.copytree(folder, self.directory / outputs / str(number))
            found = self.run_with(*run, "--resume", ranks=number, output=f"{outputs}/{number}")
            self.assert_equal(found, whole, first=SAVED + 1)
            for counted in ("tokens", "trl_tokens"):
                went_on = getattr(found, counted)
                self.assertEqual(went_on, {step: getattr(whole, counted)[step] for step in went_on}, counted)
            for step, ids in {**killed.samples, **found.samples}.items():
                self.assertEqual(sorted(ids), sorted(whole.samples[step]), step)
            self.assertAlmostEqual(found.epochs[SAVED + 1], (SAVED + 1) * 2 / STEPS)
