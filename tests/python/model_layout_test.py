"""A model's directory in a layout: every stage has the arguments that it consumes."""

import json
import pathlib
import shutil
import tempfile
import unittest

import isocost
from model_test import MISSING, write_shards
from support import main, torchrun

if not MISSING:
    import torch
    import transformers

    import model_directories
    from model_test import IN_ORDER, ORDER

JOB = pathlib.Path(__file__).parent / "model_stage.py"


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class ModelLayout(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-model-layout-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.shards = self.directory / "shards"
        self.shards.mkdir()
        write_shards(self.shards)

    def layout(self, pipeline, **more):
        file = self.directory / "layout.json"
        degrees = {"tensor": 1, "pipeline": pipeline, "data": 1}
        file.write_text(json.dumps({"version": 1, "encoder_place": "llm", "encoder": degrees, "llm": degrees,
                                    "microbatches": 2, "chunks": 1, "schedule": "1f1b", **more}))
        return file

    def whole_model(self, directory):
        """Returns loss and gradients of the first step, by the model's own forward."""
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory).double().train()
        loss = 0.0
        with isocost.DataLoader(self.shards, model=directory, global_batch_size=8, microbatches=1,
                                node=IN_ORDER) as loader:
            for microbatch in loader:
                share = model(**microbatch).loss
                share.backward()
                loss += share.item()
                if microbatch.last_of_step:
                    break
        return loss, {name: parameter.grad for name, parameter in model.named_parameters()
                      if parameter.grad is not None}

    def stages(self, directory, microbatches, balance):
        """Returns what the two stages print, the loss, and the sum of their gradients, of the same step."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        job = torchrun([JOB, self.shards, directory, self.layout(2, microbatches=microbatches), balance, out], ranks=2)
        gradients = {}
        for rank in (0, 1):
            for name, gradient in torch.load(out / f"{rank}.pt").items():
                gradients[name] = gradients.get(name, 0) + gradient
        lines = [line.split() for line in sorted(job.stdout.splitlines())]
        return [set(names.split(",")) for _, _, names in lines], sum(float(loss) for _, loss, _ in lines), gradients

    def check_two_stages(self, family):
        directory = model_directories.make(self.directory / family, family, model=True)
        whole_loss, whole = self.whole_model(directory)
        for microbatches, balance in ((2, "in-order"), (4, "cost")):
            with self.subTest(microbatches=microbatches, balance=balance):
                (first, last), loss, gradients = self.stages(directory, microbatches, balance)
                self.assertAlmostEqual(loss / whole_loss, 1, delta=1e-6)
                self.assertEqual(gradients.keys(), whole.keys())
                for name, gradient in gradients.items():
                    difference = (gradient - whole[name]).norm() / whole[name].norm().clamp(min=1e-12)
                    self.assertLess(difference.item(), 1e-6, name)
        return first, last

    def test_two_stages_have_the_gradients_of_the_whole_model_whatever_the_plan(self):
        of_first, of_last = self.check_two_stages("qwen2_5_vl")
        every = {"position_ids", "use_cache"}
        self.assertEqual(of_first, every | {"input_ids", "pixel_values", "image_grid_thw"})
        self.assertLessEqual(every | {"labels", "num_items_in_batch"}, of_last)
        self.assertFalse({"input_ids", "pixel_values"} & of_last)

    def test_linear_attention_in_two_stages(self):
        if not model_directories.is_known("qwen3_5"):
            self.skipTest(f"transformers {transformers.__version__} does not know qwen3_5")
        for names in self.check_two_stages("qwen3_5"):
            self.assertLessEqual({"attention_mask", "position_ids"}, names)

    def test_one_stage_is_the_whole_model(self):
        model = model_directories.make(self.directory / "model", "qwen2_5_vl", model=True)
        with isocost.DataLoader(self.shards, model=model, layout=self.layout(1), global_batch_size=16,
                                node=ORDER) as loader:
            names = {name for microbatch in loader for name in microbatch.tensors}
        self.assertLessEqual({"input_ids", "labels", "position_ids", "pixel_values"}, names)


if __name__ == "__main__":
    main()
