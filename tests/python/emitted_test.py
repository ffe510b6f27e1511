"""The file that `isocost plan --emit fsdp2` writes, run over gloo: gradients of the parallelized model are those of the
model on its own, and what the layout says to compute again is computed again."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import torch

from support import PROGRAM, TIMEOUT, main, summary, torchrun

JOB = pathlib.Path(__file__).with_name("emitted_job.py")
HAS_SHARDING = False
if not torch.__version__.startswith("1."):  # Debian's torch 1.13 cannot import it under Python 3.11.
    import torch.distributed.fsdp
    HAS_SHARDING = hasattr(torch.distributed.fsdp, "fully_shard")


class Emitted(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "samples.csv").write_text("encoder_patches,llm_tokens\n" + "1024,400\n2048,900\n" * 8)

    def plan(self, *options, gpus=2, memory="300GiB"):
        done = subprocess.run(
            [PROGRAM, "plan", "--trace", self.folder / "samples.csv", "--gpus", str(gpus), "--gpu-memory", memory,
             "--global-batch-size", "8", "--batches", "1", "--evaluations", "10", "--emit", "fsdp2", "--force",
             "--output", self.folder / "layout.json", *options],
            capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / "layout_fsdp2.py", json.loads((self.folder / "layout.json").read_text(encoding="utf-8"))

    def train(self, file, ranks=2, **settings):
        run = torchrun([JOB, file, json.dumps(settings)], ranks)
        found = summary(run.stdout)
        self.assertEqual(len(found), ranks)
        return found

    def refused(self, says, file, ranks=2, **settings):
        run = torchrun([JOB, file, json.dumps(settings)], ranks, expect=1)
        self.assertGreaterEqual(run.stderr.count(says), ranks, run.stderr)


class File(Emitted):
    def test_the_file_is_python_that_names_its_layout(self):
        file, layout = self.plan()
        text = file.read_text(encoding="utf-8")
        compile(text, str(file), "exec")
        self.assertEqual((layout["encoder_place"], layout["llm"]["tensor"], layout["llm"]["pipeline"]), ("llm", 1, 1))
        self.assertIn('layout="layout.json"', text)
        self.assertIn(f"MICROBATCHES = {layout['microbatches']}", text)
        self.assertTrue(max(map(len, text.splitlines())) <= 120)


@unittest.skipUnless(HAS_SHARDING, f"torch {torch.__version__} has no fully_shard (2.6): ./run test --torch2")
class Run(Emitted):
    def test_sharded_weights_train_as_the_whole_model(self):
        file, layout = self.plan(memory="120GiB")  # The whole state of a rank needs more.
        self.assertEqual(layout["llm"]["shard"], 2)
        for found in self.train(file):
            self.assertEqual(found["type"], "FSDPModel")
            self.assertEqual(found["sharded"], 34)  # 6 parameters a block, embedding and head
            self.assertEqual(found["counts"], {"encoder": 4, "llm": 6})
        for found in self.train(file, bf16=True):  # the file's own precision
            self.assertGreater(found["loss"], 0)

    def test_layers_stay_gathered_between_passes_where_the_layout_says_so(self):
        slow = ("--interconnect", "gpus-per-node=1,network=50MB/s")  # Passes wait for it.
        for options, encoder, llm in (((), 0, 0), (slow, 2, 3), ((*slow, "--freeze", "encoder"), 0, 3)):
            with self.subTest(options=options):
                file, layout = self.plan(*options, memory="120GiB")
                self.assertEqual(layout["llm"]["shard"], 2)
                kept = tuple("reshard" in layout[module] for module in ("encoder", "llm"))
                self.assertEqual(kept, (encoder > 0, llm > 0))
                for found in self.train(file, freeze="--freeze" in options):
                    self.assertEqual(found["between_passes"], {"encoder": encoder, "llm": llm})

    def test_replicas_hold_whole_weights(self):
        file, layout = self.plan("--replicate-optimizer")
        self.assertNotIn("shard", layout["llm"])
        self.assertEqual(layout["optimizer"], "replicated")
        for found in self.train(file):
            self.assertEqual((found["type"], found["sharded"]), ("DistributedDataParallel", 0))

    def test_groups_of_shards_are_replicated(self):
        # Between machines of two GPUs, weights travel slowly, and a machine's memory holds them.
        file, layout = self.plan("--interconnect", "gpus-per-node=2,network=20MB/s", gpus=4)
        self.assertEqual((layout["llm"]["data"], layout["llm"]["shard"]), (4, 2))
        for found in self.train(file, ranks=4):
            self.assertEqual(found["sharded"], 34)

    def test_what_is_computed_again(self):
        for options, counts in (
                (("--recompute", "full"), {"encoder": 8, "llm": 12}),
                (("--recompute", "selective"), {"encoder": 8, "llm": 12}),
                (("--recompute", "full", "--freeze", "encoder"), {"encoder": 4, "llm": 12})):
            with self.subTest(options=options):
                file, _ = self.plan(*options)
                for found in self.train(file, freeze="encoder" in options):
                    self.assertEqual(found["counts"], counts)

    def test_a_model_that_contradicts_the_layout_is_refused(self):
        file, _ = self.plan("--recompute", "selective")
        self.refused("of which weights are frozen", file, freeze=True)
        self.refused("Block has no mlp, feed_forward or ffn", file, bad="no mlp")
        self.refused("call torch.distributed.init_process_group() before", file, bad="no group")
        self.refused("this job has 3 ranks, and the layout 2", file, ranks=3)
        replicated, _ = self.plan("--replicate-optimizer")
        self.refused("computes in the model's own type", replicated, bad="precision")
        frozen, _ = self.plan("--freeze", "encoder")
        self.refused("call requires_grad_(False) on it first", frozen)
        adapted, _ = self.plan("--adapters", "llm=8")
        self.refused("add the adapters first", adapted)


if __name__ == "__main__":
    main()
