"""The loops of examples/frameworks: losses and norms of gradients are equal on one rank and two, and a run that was
killed continues."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support import PROGRAM, TIMEOUT, main, start_ranks, torchrun

NEEDED = ("transformers", "tokenizers", "jinja2", "PIL", "torchvision", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import accelerate

    import model_directories
    from finetune_test import SAMPLES, write_llava
    from isocost.integrations.accelerate import check

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/frameworks"
STEPS_OF_EPOCH, EPOCHS = 3, 2
# Epochs and steps. A checkpoint is written after the second step of an epoch, and at its end. Ranks may have saved more
# when they are killed.
DIES_AT, GOES_ON_AT = (0, 2), ((0, 2), (1, 0), (1, 2))
CLIP = 1.0  # below the norms of all steps, so that AdamW would not hide a gradient of another scale
RELATIVE = 1e-5


def steps_of(text):
    """Losses and norms by epoch and step."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {(line["epoch"], line["step"]): (line["loss"], line["norm"]) for line in lines}


class Runs(unittest.TestCase):
    """Runs of an example, compared with those of ddp.py on one rank."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-frameworks-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        os.environ["ACCELERATE_USE_CPU"] = "1"
        files = cls.directory / "files"
        files.mkdir()
        subprocess.run([PROGRAM, "make-shards", write_llava(files, SAMPLES), cls.directory / "shards",
                        "--samples-per-shard", "16"], check=True, capture_output=True, timeout=TIMEOUT)
        cls.model = model_directories.make(cls.directory / "model", "qwen2_5_vl", model=True)
        cls.undisturbed = steps_of(torchrun(cls.arguments("ddp", "undisturbed"), 1).stdout)

    @classmethod
    def arguments(cls, script, checkpoint):
        return [EXAMPLES / f"{script}.py", "--data", cls.directory / "shards", "--model", cls.model, "--checkpoints",
                cls.directory / checkpoint, "--max-tokens", "600", "--epochs", EPOCHS, "--save-every", "2",
                "--lr", "1e-3", "--clip", CLIP]

    def assert_undisturbed(self, found, first=(0, 0)):
        self.assertEqual(sorted(found), [place for place in sorted(self.undisturbed) if place >= first])
        for place, values in found.items():
            for value, expected in zip(values, self.undisturbed[place]):
                self.assertAlmostEqual(value / expected, 1, delta=RELATIVE, msg=str(place))

    def kill(self, script, checkpoint, *more):
        """Runs two ranks until one has printed the step at which they are killed."""
        store, ranks = start_ranks([*self.arguments(script, checkpoint), *more], 2, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        try:
            seen = {}
            while DIES_AT not in seen:
                line = ranks[0].stdout.readline()
                self.assertTrue(line, "rank 0 has ended")
                seen.update(steps_of(line))
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()
        del store


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Loops(Runs):
    def check_loop(self, script):
        self.assertEqual(len(self.undisturbed), STEPS_OF_EPOCH * EPOCHS)
        self.assert_undisturbed(steps_of(torchrun(self.arguments(script, f"{script}-whole"), 2).stdout))
        for ranks in (1, 3):
            checkpoint = f"{script}-{ranks}"
            self.kill(script, checkpoint)
            found = steps_of(torchrun(self.arguments(script, checkpoint), ranks).stdout)
            self.assertIn(min(found), GOES_ON_AT)
            self.assert_undisturbed(found, min(found))

    def test_distributed_data_parallel(self):
        self.check_loop("ddp")

    def test_fully_shard(self):
        self.check_loop("sharded")

    def test_accelerate(self):
        self.check_loop("accelerated")


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Accelerate(unittest.TestCase):
    def test_accumulation_is_refused(self):
        with self.assertRaisesRegex(ValueError, "gradient_accumulation_steps = 2: .* leave it 1"):
            check(accelerate.Accelerator(gradient_accumulation_steps=2, cpu=True))

    def test_ranks_that_it_does_not_know_are_refused(self):
        accelerator = accelerate.Accelerator(cpu=True)
        check(accelerator)
        os.environ["WORLD_SIZE"] = "2"
        self.addCleanup(os.environ.pop, "WORLD_SIZE")
        with self.assertRaisesRegex(ValueError, "num_processes = 1, and WORLD_SIZE = 2: .*ACCELERATE_USE_CPU=1"):
            check(accelerator)

    def test_parallelism_within_a_sample_is_refused(self):
        accelerator = accelerate.Accelerator(cpu=True)
        for kind, reason in (("DEEPSPEED", "engine"), ("MEGATRON_LM", "splits")):
            accelerator.state.distributed_type = accelerate.DistributedType[kind]
            with self.assertRaisesRegex(ValueError, f"distributed_type = {kind}: .*{reason}.*use DDP or FSDP"):
                check(accelerator)
        accelerator.state.distributed_type = accelerate.DistributedType.NO
        check(accelerator)


if __name__ == "__main__":
    main()
