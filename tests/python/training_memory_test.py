"""The activations that a layout predicts, beside those that a real model of the same dimensions holds on the CPU:
trained whole, frozen and with adapters, each without recomputation, with a selective one and with a full one. Attention
and the MLP's product keep what fused kernels keep: no scores, and no second copy of the gate."""

import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import weakref

import torch

from fused_model import Layer, Shape

LAB = pathlib.Path(os.environ["ISOCOST_PROGRAM"]).with_name("isocost-lab")
SHAPE = Shape(layers=4, width=128, heads=4, key_value_width=64, mlp=352)
TOKENS, MICROBATCHES = 256, 2
TRAINED = ("all", "adapters", "none")
RECOMPUTED = ("none", "selective", "full")
ALLOWED = 0.02


class Held:
    """Bytes of the storages that wait for a backward pass, parameters apart."""

    def __init__(self, model):
        self.parameters = {parameter.data_ptr() for parameter in model.parameters()}
        self.users, self.bytes, self.peak = {}, 0, 0

    class Box:
        def __init__(self, tensor):
            self.tensor = tensor

    def pack(self, tensor):
        key = tensor.storage().data_ptr()
        box = Held.Box(tensor)
        if key in self.parameters:
            return box
        if self.users.setdefault(key, 0) == 0:
            self.bytes += tensor.storage().nbytes()
            self.peak = max(self.peak, self.bytes)
        self.users[key] += 1
        weakref.finalize(box, self.drop, key, tensor.storage().nbytes())
        return box

    def drop(self, key, size):
        self.users[key] -= 1
        if self.users[key] == 0:
            self.bytes -= size


def held_by_torch(trained, recompute):
    """The peak over the forward passes of all microbatches, and their backward passes."""
    torch.manual_seed(0)
    shape = dataclasses.replace(SHAPE, trained=trained)
    model = torch.nn.Sequential(*(Layer(shape, recompute) for _ in range(SHAPE.layers))).to(torch.bfloat16)
    held = Held(model)
    with torch.autograd.graph.saved_tensors_hooks(held.pack, lambda box: box.tensor):
        outputs = []
        for _ in range(MICROBATCHES):
            inputs = torch.randn(TOKENS, SHAPE.width).to(torch.bfloat16).requires_grad_()
            outputs.append(model(inputs).float().sum())
        while outputs:
            outputs.pop().backward()
    assert held.bytes == 0, f"{held.bytes} bytes are held after all backward passes"
    return held.peak


class TrainingMemory(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        shape = SHAPE.architecture()
        seconds = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 1e-6, "per_unit_squared": 0}
        none = dict.fromkeys(seconds, 0)
        modules = {"vision": {**seconds, "architecture": {"name": "encoder", **shape}}, "audio": none,
                   "llm": {**seconds, "architecture": {"name": "decoder", **shape}}}
        self.profile = self.write("profile.json", json.dumps({"version": 1, "unit": "seconds", "modules": modules}))

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def predicted(self, trace, modules):
        degrees = {"tensor": 1, "pipeline": 1, "data": 1}
        layout = {"version": 1, "encoder_place": "llm", "microbatches": MICROBATCHES, "chunks": 1, "schedule": "gpipe",
                  **{name: {**degrees, **modules.get(name, {})} for name in ("encoder", "llm")}}
        done = subprocess.run(
            [LAB, "simulate", "--profile", self.profile, "--layout", self.write("layout.json", json.dumps(layout)),
             "--trace", self.write("trace.csv", f"encoder_patches,llm_tokens\n{trace}\n"), "--global-batch-size",
             str(MICROBATCHES), "--steps", "1", "--balance", "in-order", "--json"],
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["policies"]["in-order"]["peak_activation_gib"] * 2**30

    def test_predicted_activations_are_what_a_model_holds(self):
        for trained, recompute in itertools.product(TRAINED, RECOMPUTED):
            with self.subTest(trained=trained, recompute=recompute):
                keys = {"train": trained, "recompute": recompute}
                if trained == "adapters":
                    keys["adapter_rank"] = SHAPE.adapter_rank
                predicted = self.predicted(f"0,{TOKENS}", {"llm": keys})
                held = held_by_torch(trained, recompute)
                print(f"{trained}, recomputation {recompute}: {predicted:.0f} bytes predicted, {held} held, "
                      f"{100 * (predicted / held - 1):+.1f} %")
                self.assertLess(abs(predicted / held - 1), ALLOWED)

    def test_a_frozen_encoder_keeps_nothing_but_the_layer_that_runs(self):
        whole = self.predicted(f"{TOKENS},0", {})
        frozen = self.predicted(f"{TOKENS},0", {"encoder": {"train": "none"}})
        self.assertLess(frozen, whole / SHAPE.layers / MICROBATCHES)
        self.assertGreater(frozen, 0)


if __name__ == "__main__":
    unittest.main()
