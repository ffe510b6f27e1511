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
    from model_test import ORDER

JOB = pathlib.Path(__file__).parent / "model_stage.py"


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class ModelLayout(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-model-layout-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.shards = self.directory / "shards"
        self.shards.mkdir()
        write_shards(self.shards)
        self.model = model_directories.make(self.directory / "model", "qwen2_5_vl", model=True)

    def layout(self, pipeline, **more):
        file = self.directory / "layout.json"
        degrees = {"tensor": 1, "pipeline": pipeline, "data": 1}
        file.write_text(json.dumps({"version": 1, "encoder_place": "llm", "encoder": degrees, "llm": degrees,
                                    "microbatches": 2, "chunks": 1, "schedule": "1f1b", **more}))
        return file

    def whole_loss(self):
        """Returns the loss of the first step, by the model's own forward."""
        model = transformers.AutoModelForImageTextToText.from_pretrained(self.model, dtype=torch.float32).eval()
        loss = 0.0
        with torch.no_grad(), isocost.DataLoader(self.shards, model=self.model, global_batch_size=16, microbatches=2,
                                                 node=ORDER) as loader:
            for microbatch in loader:
                loss += model(**microbatch).loss.item()
                if microbatch.last_of_step:
                    return loss

    def test_two_stages_have_the_loss_of_the_whole_model(self):
        job = torchrun([JOB, self.shards, self.model, self.layout(2)], ranks=2)
        (_first, none, of_first), (_last, loss, of_last) = (line.split() for line in sorted(job.stdout.splitlines()))
        self.assertEqual(float(none), 0)
        self.assertAlmostEqual(float(loss) / self.whole_loss(), 1, delta=1e-5)
        every = {"position_ids", "use_cache"}
        self.assertEqual(set(of_first.split(",")), every | {"input_ids", "pixel_values", "image_grid_thw"})
        self.assertLessEqual(every | {"labels", "num_items_in_batch"}, set(of_last.split(",")))
        self.assertFalse({"input_ids", "pixel_values"} & set(of_last.split(",")))

    def test_one_stage_is_the_whole_model(self):
        with isocost.DataLoader(self.shards, model=self.model, layout=self.layout(1), global_batch_size=16,
                                node=ORDER) as loader:
            names = {name for microbatch in loader for name in microbatch.tensors}
        self.assertLessEqual({"input_ids", "labels", "position_ids", "pixel_values"}, names)


if __name__ == "__main__":
    main()
