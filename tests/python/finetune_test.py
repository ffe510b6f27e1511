"""The example that fine-tunes a vision-language model of transformers: with its own loop, with the Trainer and without
Isocost the losses are equal."""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import PROGRAM, TIMEOUT, main, torchrun

NEEDED = ("transformers", "tokenizers", "jinja2", "PIL", "torchvision", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import numpy
    from PIL import Image

    import model_directories

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "huggingface"
SIZES = [(28, 28), (40, 300), (301, 40), (57, 91), (320, 240), (333, 217), (224, 168), (56, 112)]
STEPS, BATCH = 5, 8
SAMPLES = 46  # the last 6 are the dropped tail
RELATIVE = 1e-4  # the processor's torchvision rounds some pixels otherwise (docs/models/processor_differences.md)


def picture(file, width, height, seed):
    noise = numpy.random.default_rng(seed).integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=numpy.uint8)
    Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC).save(file)


def write_llava(directory, samples=SAMPLES):
    """Conversations with none, one or two pictures. Returns the file of records."""
    records = []
    for i in range(samples):
        pictures = 0 if BATCH <= i < 2 * BATCH else i % 3  # no pictures in the whole second step
        names = [f"{i}-{k}.{'jpg' if i % 2 else 'png'}" for k in range(pictures)]
        for k, name in enumerate(names):
            picture(directory / name, *SIZES[(i + k) % len(SIZES)], 10 * i + k)
        turns = [{"from": "human", "value": "<image>\n" * pictures + f"Question {i}? \u00e4\U0001f600"},
                 {"from": "gpt", "value": "An answer. " * (1 + i % 7)}]
        if i % 4 == 0:
            turns += [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because."}]
        records.append({"id": f"c{i}", "conversations": turns, **({"image": names} if names else {})})
    file = directory / "llava.json"
    file.write_text(json.dumps(records))
    return file


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Finetune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-finetune-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.shards = cls.directory / "shards"
        subprocess.run([PROGRAM, "make-shards", write_llava(cls.directory), cls.shards, "--samples-per-shard", "16"],
                       check=True, capture_output=True, timeout=TIMEOUT)

    def arguments(self, model, *more):
        return ["--data", self.shards, "--model", model, "--global-batch-size", str(BATCH), "--microbatches", "2",
                "--steps", str(STEPS), "--lr", "1e-3", "--no-shuffle", "--output", self.directory / "out", *more]

    def steps(self, lines):
        """Returns the lines that a script printed for its steps."""
        steps = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
        self.assertEqual([step["step"] for step in steps], list(range(1, STEPS + 1)))
        return steps

    def run_alone(self, script, *arguments):
        done = subprocess.run([sys.executable, "-B", EXAMPLES / script, *self.arguments(*arguments)],
                              capture_output=True, text=True, timeout=2 * TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.steps(done.stdout)

    def run_two_ranks(self, script, *arguments):
        return self.steps(torchrun([EXAMPLES / script, *self.arguments(*arguments)]).stdout)

    def assert_equal_steps(self, steps, expected):
        for step, other in zip(steps, expected):
            self.assertAlmostEqual(step["loss"] / other["loss"], 1, delta=RELATIVE, msg=f"{step}, {other}")

    def check(self, family):
        model = model_directories.make(self.directory / family, family, model=True)
        expected = self.run_alone("finetune_before.py", model)
        self.assertLess(expected[-1]["loss"], expected[0]["loss"])
        shutil.rmtree(self.directory / "out")
        self.assert_equal_steps(self.run_alone("finetune.py", model), expected)
        self.assertTrue((self.directory / "out" / "model.safetensors").exists())
        self.assert_equal_steps(self.run_alone("finetune.py", model, "--trainer"), expected)
        return model, expected

    def test_losses_of_qwen2_vl(self):
        self.check("qwen2_vl")

    def test_losses_of_qwen2_5_vl_also_with_two_ranks(self):
        model, expected = self.check("qwen2_5_vl")  # its accepts_loss_kwargs is False, which the Trainer heeds
        self.assert_equal_steps(self.run_two_ranks("finetune.py", model), expected)
        self.assert_equal_steps(self.run_two_ranks("finetune.py", model, "--trainer"), expected)
        self.assert_equal_steps(self.run_two_ranks("finetune_before.py", model), expected)

    def test_the_page_shows_the_difference(self):
        page = (ROOT / "docs/finetune.md").read_text()
        section = page.split("\n## What changes in the script")[1].split("\n## ")[0]
        shown = section.split("```diff\n")[1].split("```")[0].splitlines()
        before, after = ([line.strip() for line in (EXAMPLES / name).read_text().splitlines()]
                         for name in ("finetune_before.py", "finetune.py"))
        for line in shown:
            text = line[1:].strip()
            self.assertTrue(line[0] == "+" or text in before, line)
            self.assertTrue(line[0] == "-" or text in after, line)


if __name__ == "__main__":
    main()
