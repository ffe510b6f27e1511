"""Loaders and their node agree before the first microbatch on whether rows are padded: plans count the padding."""

import importlib.util
import subprocess
import unittest

import isocost
from support import PROGRAM, TIMEOUT, ShardTest, main, torchrun

NEEDED = ("torch", "transformers", "tokenizers", "jinja2", "PIL")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import model_directories
    from model_test import CONVERSATIONS, this_python_first, write_shards

# Rank 1 has another batching than the first process, whose node plans.
DIFFERENT_RANKS = """
import datetime, os, sys
import isocost
from torch import distributed
rank = int(os.environ["RANK"])
events = distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
try:
    loader = isocost.DataLoader(sys.argv[1], model=sys.argv[2], batching=sys.argv[3 + rank], global_batch_size=12,
                                microbatches=1)
    print(f"rank {rank}: {len(loader)} microbatches", flush=True)
except ValueError as error:
    print(f"rank {rank}: {error}", flush=True)
events.set(f"rank {rank} has asked", "1")
events.wait(["rank 0 has asked", "rank 1 has asked"], datetime.timedelta(seconds=60))
"""


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Agreement(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.conversations = cls.directory / "conversations"
        cls.conversations.mkdir()
        write_shards(cls.conversations)
        cls.model = model_directories.make(cls.directory / "model", "qwen2_vl")
        subprocess.run([PROGRAM, "tokenize", cls.conversations, "--model", cls.model], check=True, capture_output=True,
                       timeout=TIMEOUT, env=this_python_first())

    def node(self, *arguments):
        return self.serve("--model", self.model, "--ranks", 1, "--global-batch-size", 12, "--microbatches", 1,
                          *arguments, data=self.conversations)[1]

    def loader(self, data, batching, **options):
        loader = isocost.DataLoader(data, model=self.model, batching=batching, **options)
        self.addCleanup(loader.close)
        return loader

    def assertAgree(self, endpoint, batching):
        self.assertEqual(sum(len(each.sample_ids) for each in self.loader(endpoint, batching)), CONVERSATIONS)

    def assertRefused(self, endpoint, batching, reason):
        for use in (len, next):
            loader = self.loader(endpoint, batching)
            with self.assertRaisesRegex(ValueError, reason):
                use(loader if use is len else iter(loader))

    def test_a_node_that_packs(self):
        endpoint = self.node()
        self.assertRefused(endpoint, "padded", r"batching = 'padded' \(to a multiple of 1\): the node plans packed "
                                               r"rows: .* `isocost serve --padded llm --padded-multiple 1`")
        self.assertAgree(endpoint, None)

    def test_a_node_that_pads(self):
        endpoint = self.node("--padded", "vision,llm", "--padded-multiple", 64)
        for packed in (None, "packed"):
            self.assertRefused(endpoint, packed, "batching = 'packed': the node plans rows that are padded to a "
                                                 "multiple of 64: .* without `--padded llm`")
        self.assertRefused(endpoint, "padded", "padded to a multiple of 64: .* --padded-multiple 1`")
        self.assertAgree(endpoint, isocost.Padded("left", 64))

    def test_an_encoder_that_is_padded_is_not_the_llm(self):
        self.assertAgree(self.node("--padded", "vision"), "packed")

    def test_options_of_an_embedded_node_that_contradict(self):
        for batching, node in (("packed", isocost.NodeOptions(padded=("llm",))),
                               ("padded", isocost.NodeOptions(padded=("vision",)))):
            with self.subTest(batching=batching):
                loader = self.loader(self.conversations, batching, node=node, global_batch_size=12, microbatches=1)
                with self.assertRaisesRegex(ValueError, "in Python the options padded and padded_multiple"):
                    next(iter(loader))

    def test_ranks_that_differ(self):
        script = self.directory / "different_ranks.py"
        script.write_text(DIFFERENT_RANKS)
        for first, second, reason in (
                ("packed", "padded", "batching= makes padded 'llm' at rank 1, and rank 0, whose node serves all ranks, "
                                     "leaves it out: give all ranks the same"),
                ("padded", "packed", "batching = 'packed': the node plans rows .* give all ranks the batching")):
            with self.subTest(first=first):
                said = torchrun([script, self.conversations, self.model, first, second]).stdout
                self.assertIn("rank 0: 4 microbatches", said)
                self.assertRegex(said, f"rank 1: {reason}")


if __name__ == "__main__":
    main()
