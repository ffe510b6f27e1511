"""The memory that a layout predicts with sharded weights, beside the bytes that PyTorch's fully_shard really holds for
a small model of the same dimensions on two gloo ranks: layers that are gathered again for their backward pass, and
layers that stay gathered, each without recomputation and with a full one."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

from support import SKIPPED, TIMEOUT, main, torchrun

JOB = pathlib.Path(__file__).with_name("sharded_memory_job.py")
LAB = pathlib.Path(os.environ["ISOCOST_PROGRAM"]).with_name("isocost-lab")
RANKS, MICROBATCHES = 2, 2
SHAPE = {"width": 256, "heads": 2, "key_value_width": 128, "mlp": 704}
LAYERS = {"encoder": 3, "llm": 6}
VOCABULARY, PATCH, PATCHES, TOKENS = 512, 32, 64, 128
CASES = [{name: {"reshard": reshard, "recompute": recompute} for name in LAYERS}
         for recompute in ("none", "full") for reshard in (True, False)]
CASES.append({"encoder": {"reshard": True, "recompute": "none"}, "llm": {"reshard": False, "recompute": "none"}})
ALLOWED = 0.1


def profile():
    """A model profile of both modules. Embeddings and head are the LLM's, the projection of patches the encoder's."""
    seconds = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 1e-6, "per_unit_squared": 0}
    embeddings = {"encoder": PATCH * SHAPE["width"], "llm": 2 * VOCABULARY * SHAPE["width"]}
    modules = {name: {**seconds, "architecture": {"name": name, **SHAPE, "layers": LAYERS[name], "gated": True,
                                                  "embedding_parameters": embeddings[name], "head_flop_per_unit": 0}}
               for name in LAYERS}
    return {"version": 1, "unit": "seconds", "modules": {"vision": modules["encoder"], "llm": modules["llm"],
                                                         "audio": dict.fromkeys(seconds, 0)}}


class ShardedMemory(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def predicted(self, case):
        """The bytes of a rank, and those of them that are activations."""
        degrees = {"tensor": 1, "pipeline": 1, "data": RANKS, "shard": RANKS}
        layout = {"version": 1, "encoder_place": "llm", "microbatches": MICROBATCHES, "chunks": 1, "schedule": "1f1b",
                  **{name: {**degrees, **case[name]} for name in LAYERS}}
        done = subprocess.run(
            [LAB, "simulate", "--profile", self.write("profile.json", json.dumps(profile())), "--layout",
             self.write("layout.json", json.dumps(layout)), "--trace",
             self.write("trace.csv", f"encoder_patches,llm_tokens\n{PATCHES},{TOKENS}\n"), "--global-batch-size",
             str(RANKS * MICROBATCHES), "--steps", "1", "--balance", "in-order", "--json"],
            capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)["policies"]["in-order"]
        return answer["memory_gib"] * 2**30, answer["peak_activation_gib"] * 2**30

    def test_predicted_memory_is_what_a_model_holds(self):
        settings = {"vocabulary": VOCABULARY, "patch": PATCH, "patches": PATCHES, "tokens": TOKENS,
                    "microbatches": MICROBATCHES, "cases": CASES,
                    **{name: {"shape": {**SHAPE, "layers": LAYERS[name]}} for name in LAYERS}}
        ranks = [json.loads(line) for line in torchrun([JOB, json.dumps(settings)], RANKS).stdout.splitlines()]
        self.assertEqual(len(ranks), RANKS)
        for case, *of_ranks in zip(CASES, *ranks):
            text = ", ".join(f"{name} {'gathered twice' if keys['reshard'] else 'stays gathered'}, recomputes "
                             f"{keys['recompute']}" for name, keys in case.items())
            with self.subTest(case=text):
                self.compare(text, self.predicted(case), of_ranks)

    def compare(self, text, predicted, of_ranks):
        memory, activations = predicted
        state = max(sum(rank["state"].values()) for rank in of_ranks)
        peak = max(rank["peak"] for rank in of_ranks)
        beside = peak - state
        print(f"{text}: {memory / 2**20:.1f} MiB predicted, {peak / 2**20:.1f} held, "
              f"{100 * (memory / peak - 1):+.1f} %; "
              f"beside the state {(memory - state) / 2**20:.1f} ({activations / 2**20:.1f} of activations), "
              f"{beside / 2**20:.1f}, {100 * ((memory - state) / beside - 1):+.1f} %")
        for name, bytes_of_one in (("parameters", 4), ("gradients", 4), ("optimizer", 8)):
            for rank in of_ranks:
                self.assertAlmostEqual(rank["state"][name] / (self.parameters() * bytes_of_one / RANKS), 1, delta=0.01)
        self.assertLess(abs(memory / peak - 1), ALLOWED)
        self.assertLess(abs((memory - state) / beside - 1), ALLOWED)

    @staticmethod
    def parameters():
        """The parameters that layouts count: norms are left out."""
        width = SHAPE["width"]
        layer = 2 * width * (width + SHAPE["key_value_width"]) + 3 * width * SHAPE["mlp"]
        return sum(LAYERS.values()) * layer + (2 * VOCABULARY + PATCH) * width


if __name__ == "__main__":
    if torch.__version__.startswith("1."):  # Debian's torch 1.13 has no fully_shard.
        print(f"skipped: torch {torch.__version__} has no fully_shard (2.6): ./run test --torch2")
        sys.exit(SKIPPED)
    main()
