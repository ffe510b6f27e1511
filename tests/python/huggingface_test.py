"""The Hugging Face Trainer with our batches, where transformers is installed."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

import torch

import isocost
from support import TIMEOUT, ShardTest, main

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))
from model import TextModel  # noqa: E402


@unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed: ./run test --torch2 has "
                                                               "it")
class Trainer(ShardTest):
    def test_loss_and_gradient_are_those_of_the_global_batch(self):
        run = subprocess.run([sys.executable, "-B", EXAMPLES / "train_hf.py", self.shards, "--steps", "5"],
                             capture_output=True, text=True, timeout=2 * TIMEOUT)
        self.assertEqual(run.returncode, 0, run.stderr)
        steps = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"')]
        self.assertEqual([step["step"] for step in steps], [1, 2, 3, 4, 5])  # into the second epoch
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])

        torch.manual_seed(0)
        model, loss = TextModel(), 0.0
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2,
                                node=isocost.NodeOptions(tail="drop")) as loader:
            for microbatch in loader:
                part = isocost.token_loss(model(**microbatch), microbatch)
                part.backward()
                loss += part.item()
                if microbatch.last_of_step:
                    break
        norm = torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).norm().item()
        self.assertAlmostEqual(steps[0]["loss"], loss, delta=1e-3 * loss)
        self.assertAlmostEqual(steps[0]["grad_norm"], norm, delta=1e-3 * norm)


if __name__ == "__main__":
    main()
