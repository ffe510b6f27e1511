"""Microbatches that lack media which other ranks have: dummies run the encoder and change nothing else."""

import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import isocost
from support import PROGRAM, TIMEOUT, ShardTest, main, torchrun, write_tone

NEEDED = ("torch", "transformers", "tokenizers", "jinja2", "PIL")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import torch
    import transformers

    import model_directories
    from finetune_test import picture
    from model_test import this_python_first

SCRIPT = pathlib.Path(__file__).with_name("dummy_media_rank.py")
HAS_SHARDING = not MISSING and hasattr(torch.distributed, "fsdp") and hasattr(
    importlib.import_module("torch.distributed.fsdp"), "fully_shard")


def write_picture(file, i):
    picture(file, 56 + 28 * (i % 3), 84, i)


def write_sound(file, i):
    write_tone(file, 0.5 + i / 10)


def write_shards(directory, samples, has_medium, medium=("image", "png", write_picture)):
    """Makes shards of conversations, those with a medium where has_medium says. Returns their directory."""
    name, extension, write = medium
    files = directory / "files"
    files.mkdir(parents=True)
    records = []
    for i in range(samples):
        record = {"id": f"c{i:03}", "conversations": [
            {"from": "human", "value": (f"<{name}>\n" if has_medium(i) else "") + f"Question {i}?"},
            {"from": "gpt", "value": "An answer. " * (1 + i % 5)}]}
        if has_medium(i):
            record[name] = f"{i}.{extension}"
            write(files / record[name], i)
        records.append(record)
    (files / "records.json").write_text(json.dumps(records))
    subprocess.run([PROGRAM, "make-shards", files / "records.json", directory / "shards"], check=True,
                   capture_output=True, timeout=TIMEOUT)
    return directory / "shards"


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class OfOneMicrobatch(ShardTest):
    """Two ranks. The first has only text."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pictures = write_shards(cls.directory / "pictures", 8, lambda i: i % 2 == 1)

    def first_step(self, shards, directory, dummy_media, **options):
        """Both ranks' microbatches of the first step."""
        pads = "batching" in options or directory.name in model_directories.LINEAR_ATTENTION
        _node, endpoint = self.serve("--model", directory, "--ranks", "2", "--global-batch-size", "8",
                                     "--microbatches", "1", "--shuffle", "off", "--balance", "in-order",
                                     "--dummy-media", dummy_media, *(["--padded", "llm"] if pads else []), data=shards)
        found = []
        for rank in (0, 1):
            with isocost.DataLoader(endpoint, rank=rank, world_size=2, model=directory, **options) as loader:
                found.append(next(iter(loader)))
        return found

    def gradients(self, model, microbatch):
        model.zero_grad()
        outputs = model(**microbatch)
        loss = outputs.loss if "labels" in microbatch else isocost.token_loss(outputs.logits, microbatch)
        loss.backward()
        return loss.item(), {name: parameter.grad for name, parameter in model.named_parameters()}

    def check(self, family, shards, is_encoder, media, **options):
        if not model_directories.is_known(family):
            self.skipTest(f"transformers {transformers.__version__} does not know {family}")
        directory = model_directories.make(self.directory / f"{family}", family, model=True)
        subprocess.run([PROGRAM, "tokenize", shards, "--model", directory], check=True, capture_output=True,
                       timeout=TIMEOUT, env=this_python_first())
        (architecture,) = transformers.AutoConfig.from_pretrained(directory).architectures
        model = getattr(transformers, architecture).from_pretrained(directory).double().train()
        without, other = self.first_step(shards, directory, "off", **options)
        text, same = self.first_step(shards, directory, "needed", **options)
        self.assertEqual((without.dummies, other.dummies, text.dummies, same.dummies), (0, 0, 1, 0))
        self.assertNotIn(media, without)
        self.assertIn(media, text)
        for name in ("label_tokens", "tokens", "global_label_tokens"):
            self.assertEqual(getattr(text, name), getattr(without, name), name)
        for name in ("sample_ids", "sample_keys", "sample_weights"):
            self.assertEqual(sorted(getattr(text, name)), sorted(getattr(without, name)), name)
        self.assertEqual(same.packed.keys(), other.packed.keys())
        loss, gradients = self.gradients(model, text)
        expected, without_encoder = self.gradients(model, without)
        self.assertAlmostEqual(loss / expected, 1, delta=2e-7)  # the models' own loss is float32
        ran = 0
        for name, gradient in gradients.items():
            if is_encoder(name):
                self.assertIsNone(without_encoder[name], name)
                if gradient is not None:  # a layer whose output the model does not take
                    self.assertEqual(gradient.abs().max().item(), 0, name)
                    ran += 1
            elif without_encoder[name] is not None:
                difference = (gradient - without_encoder[name]).norm() / (without_encoder[name].norm() + 1e-30)
                self.assertLess(difference.item(), 1e-6, name)
        self.assertGreater(ran, 5)

    def check_pictures(self, family, encoder, **options):
        self.check(family, self.pictures, lambda name: any(each in name for each in encoder), "pixel_values",
                   **options)

    def test_qwen2_vl(self):
        self.check_pictures("qwen2_vl", ["visual"])

    def test_qwen2_5_vl(self):
        self.check_pictures("qwen2_5_vl", ["visual"])

    def test_qwen2_5_vl_padded_on_either_side(self):
        for side in ("right", "left"):
            with self.subTest(side=side):
                self.check_pictures("qwen2_5_vl", ["visual"], batching=isocost.Padded(side))

    def test_qwen3_vl(self):
        self.check_pictures("qwen3_vl", ["visual"])

    def test_qwen3_5_padded(self):
        self.check_pictures("qwen3_5", ["visual"])

    def test_llava(self):
        self.check_pictures("llava", ["vision_tower", "multi_modal_projector"])

    def test_llava_onevision(self):
        self.check_pictures("llava_onevision", ["vision_tower", "multi_modal_projector", "image_newline"])

    def test_internvl(self):
        self.check_pictures("internvl", ["vision_tower", "multi_modal_projector"])

    def test_qwen2_audio(self):
        shards = write_shards(self.directory / "sounds", 8, lambda i: i % 2 == 1, ("audio", "wav", write_sound))
        self.check("qwen2_audio", shards, lambda name: "audio_tower" in name or "multi_modal_projector" in name,
                   "input_features", loss="token_loss")

    def test_the_log_says_once_how_large_a_dummy_is(self):
        text = write_shards(self.directory / "text", 8, lambda i: False)
        for family, told in (("qwen2_vl", ("image gets a dummy of 1 token,", "video gets a dummy of 1 token,")),
                             ("llava", ("image gets a dummy of 64 tokens,",))):
            directory = model_directories.make(self.directory / f"told_{family}", family)
            with self.assertLogs("isocost", "INFO") as logs, isocost.DataLoader(
                    text, model=directory, global_batch_size=4, microbatches=1, dummy_media="always") as loader:
                self.assertEqual([len(microbatch.sample_ids) for microbatch in loader], [4, 4])
            lines = [line for line in logs.output if "dummy_media: a microbatch that lacks the modality" in line]
            self.assertEqual(len(lines), len(told), lines)
            for line, expected in zip(sorted(lines), told):
                self.assertIn(expected, line)

    def test_always_needs_a_model(self):
        done = subprocess.run([PROGRAM, "serve", "--data", self.pictures, "--dummy-media", "always"],
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("dummy_media = always: give model", done.stderr)


@unittest.skipUnless(HAS_SHARDING, "needs torch with fully_shard, and transformers: ./run test --torch2 has all")
class OfARun(unittest.TestCase):
    """Training over two ranks is that of one process. In step i microbatch i of rank 0 has no picture."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-dummy-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.shards = write_shards(cls.directory / "each", 32, lambda i: i % 8 != 2 * (i // 8))
        cls.text_step = write_shards(cls.directory / "step", 32, lambda i: not 8 <= i < 16)
        cls.of_one_process = {}  # steps, by shards
        cls.model = model_directories.make(cls.directory / "model", "qwen2_5_vl", model=True)

    def steps(self, shards, *more, ranks=1):
        arguments = [SCRIPT, "--data", shards, "--model", self.model, *more]
        if ranks > 1:
            out = torchrun(arguments, ranks).stdout
        else:
            out = subprocess.run([sys.executable, "-B", *map(str, arguments)], capture_output=True, text=True,
                                 timeout=2 * TIMEOUT, check=True).stdout
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def check(self, *more, shards=None, dummies=lambda step: [int(i == step) for i in range(4)]):
        shards = shards or self.shards
        if shards not in self.of_one_process:
            self.of_one_process[shards] = self.steps(shards)
        found, alone = self.steps(shards, *more, ranks=2), self.of_one_process[shards]
        self.assertEqual([len(found), len(alone)], [4, 4])
        for i, (step, expected) in enumerate(zip(found, alone)):
            self.assertAlmostEqual(step["loss"] / expected["loss"], 1, delta=1e-5, msg=f"step {i}")
            self.assertAlmostEqual(step["norm"] / expected["norm"], 1, delta=1e-4, msg=f"step {i}")
            self.assertEqual(step["dummies"], dummies(i), f"step {i}")

    def test_sharded_with_the_encoder(self):
        self.check("--how", "shard-tower")

    def test_sharded_without_the_encoder(self):
        self.check("--how", "shard")

    def test_sharded_and_checkpointed(self):
        self.check("--how", "shard-tower", "--checkpointing")

    def test_data_parallel_without_unused_parameters(self):
        self.check("--how", "ddp")

    def test_gradients_summed_with_a_last_microbatch_of_text(self):
        shards = write_shards(self.directory / "last", 32, lambda i: i % 8 < 6)
        self.check("--how", "ddp-last", shards=shards, dummies=lambda step: [0, 0, 0, 1])

    def test_data_parallel_and_checkpointed_with_a_step_of_text(self):
        # Pictures and videos are two calls of the encoder.
        self.check("--how", "ddp", "--checkpointing", "--dummy-media", "always", shards=self.text_step,
                   dummies=lambda step: [2 if step == 1 else 1] * 4)


if __name__ == "__main__":
    main()
