"""Wrong calls and broken data: the fitting exception, whose first line says what to change."""

import copy
import io
import math
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import warnings

import torch

import isocost
from isocost.errors import from_code
from support import TIMEOUT, ShardTest, main


class BadInput(ShardTest):
    def loader(self, source=None, **options):
        return isocost.DataLoader(source or self.shards, **{"global_batch_size": 16, "microbatches": 2, **options})

    def assertRefused(self, kind, pattern, source=None, **options):
        with self.assertRaisesRegex(kind, pattern):
            loader = self.loader(source, **options)
            try:
                next(iter(loader))
            finally:
                loader.close()

    def test_wrong_numbers(self):
        self.assertRefused(ValueError, "rank = 2: must be from 0 to world_size - 1 = 1", rank=2, world_size=2)
        self.assertRefused(ValueError, "rank = -1", rank=-1, world_size=2)
        self.assertRefused(ValueError, "belong together", rank=1)
        self.assertRefused(ValueError, "world_size = 0", rank=0, world_size=0)
        self.assertRefused(ValueError, "global_batch_size = 0: must be", global_batch_size=0)
        self.assertRefused(ValueError, "microbatches = 1.5", microbatches=1.5)
        self.assertRefused(ValueError, "global_batch_size = 3: .* at least 4", global_batch_size=3, microbatches=4)
        self.assertRefused(ValueError, "prefetch = -1", prefetch=-1)

    def test_wrong_settings(self):
        self.assertRefused(ValueError, "recipe.*native29", recipe="native29")
        self.assertRefused(ValueError, "balance: 'equal' is not one of in-order|tokens|cost",
                           node=isocost.NodeOptions(balance="equal"))
        self.assertRefused(ValueError, "memory: 'much' is not a size", memory="much")
        self.assertRefused(TypeError, "no keyword 'global_batchsize'", global_batchsize=4)
        self.assertRefused(FileNotFoundError, "no/such.json", profile="no/such.json")
        self.assertRefused(ValueError, "max_bad_samples: 'few'", node=isocost.NodeOptions(max_bad_samples="few"))
        with tempfile.TemporaryDirectory() as directory:
            broken = pathlib.Path(directory) / "broken.json"
            for text, pattern in (("{", "parse error"), ('{"version": 2}', "'version' is 2"),
                                  ("{}", "'version' is missing")):
                broken.write_text(text)
                self.assertRefused(ValueError, f"{broken}.*{pattern}", profile=str(broken))
                self.assertRefused(ValueError, f"{broken}.*{pattern}", layout=broken, microbatches=None)
                with self.assertRaisesRegex(ValueError, pattern):
                    isocost.Layout(broken)

    def test_data_of_another_kind(self):
        for data in ([1, 2, 3], 3, None):
            with self.assertRaisesRegex(TypeError, "^data = .*: must be a directory of WebDataset shards or"):
                isocost.DataLoader(data)
        with self.assertRaisesRegex(ValueError, "^data= is missing: give"):
            isocost.DataLoader(global_batch_size=4)
        with self.assertRaisesRegex(ValueError, "^dataset= is refused: give it as data="):
            isocost.DataLoader(dataset=str(self.shards))
        with isocost.DataLoader(bytes(self.shards)) as loader:
            self.assertEqual(loader.dataset.data, str(self.shards))

    def test_values_that_a_setting_of_the_node_does_not_have(self):
        self.assertRefused(ValueError, '^memory = 0.5: must be a whole number, or text such as "512MiB"', memory=0.5)
        self.assertRefused(ValueError, "^microbatch_memory = True: ",
                           node=isocost.NodeOptions(microbatch_memory=True))
        self.assertRefused(TypeError, "^correct = 'yes': must be True or False",
                           node=isocost.NodeOptions(correct="yes"))

    def test_a_setting_that_the_node_does_not_have(self):
        with self.assertRaisesRegex(TypeError, "isocost.NodeOptions has no setting 'foo': it has recipe, max_tokens, "):
            isocost.NodeOptions(foo=1)
        with self.assertRaisesRegex(TypeError, "no setting 'lookahed': did you mean lookahead?"):
            isocost.NodeOptions(lookahed=2)
        with self.assertRaisesRegex(TypeError, "RecipeOptions has no setting 'video_fp': did you mean video_fps?"):
            isocost.RecipeOptions(video_fp=2)

    def test_attach_takes_a_module(self):
        with self.loader() as loader:
            with self.assertRaisesRegex(TypeError, "^attach: model = None: must be a torch.nn.Module"):
                loader.attach(None, llm="language_model")

    def test_logits_and_labels_have_as_many_rows(self):
        with self.loader() as loader:
            microbatch = next(iter(loader))
        for shape in ((microbatch.tokens + 1, 3), (microbatch.tokens,)):
            with self.assertRaisesRegex(ValueError, rf"logits of shape \[.*\] for {microbatch.tokens} labels"):
                isocost.token_loss(torch.zeros(shape), microbatch)

    def test_codes_of_memory(self):
        self.assertIs(type(from_code("resource_exhausted", "raise memory")), ValueError)
        self.assertIs(type(from_code("out_of_memory", "no memory for a microbatch")), MemoryError)

    def test_torchs_default_of_timeout_is_no_timeout(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", isocost.KeywordNote)
            with self.loader(timeout=0) as loader:
                self.assertGreater(len(loader), 0)

    def test_lengths_that_are_no_numbers(self):
        for said in ("many", {"llm_tokens": 5.5}, {"llm_tokens": 10**30}, {"tokens": 3}):
            with self.loader(count_tokens=lambda sample, said=said: said) as loader:
                with self.assertRaisesRegex(ValueError, "count_tokens= failed for .*(whole numbers|neither)"):
                    next(iter(loader))

    def test_a_loader_is_of_one_process(self):
        with self.loader() as loader:
            for copy_it in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "state_dict"):
                    copy_it(loader)

    def test_no_shards(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assertRefused(FileNotFoundError, empty, source=empty)
            self.assertRefused(FileNotFoundError, "nowhere", source=f"{empty}/nowhere")
            (pathlib.Path(empty) / "cut.tar").write_bytes(b"no shard at all")
            self.assertRefused(isocost.ShardError, "1 of 1 shard is damaged or lost.*cut.tar: lost: not a tar file",
                               source=empty)
            self.assertRefused(isocost.ShardError, "no usable sample .*cut.tar", source=empty,
                               node=isocost.NodeOptions(allow_broken_shards=1))

    def test_broken_shards_end_the_start_unless_they_are_allowed(self):
        with tempfile.TemporaryDirectory() as directory:
            whole = (self.shards / "shard-000000.tar").read_bytes()
            (pathlib.Path(directory) / "cut.tar").write_bytes(whole[:len(whole) // 2 + 100])
            (pathlib.Path(directory) / "page.tar").write_text("<html>404</html>")
            (pathlib.Path(directory) / "whole.tar").write_bytes(whole)
            # They are counted apart from max_bad_samples.
            self.assertRefused(isocost.ShardError, "2 of 3 shards are damaged or lost, allow_broken_shards allows 0: "
                                                   "cut.tar: damaged: .*page.tar: lost: ", source=directory,
                               node=isocost.NodeOptions(max_bad_samples="100%"))
            allowed = isocost.NodeOptions(allow_broken_shards="70%", max_bad_samples=0)
            with self.loader(directory, global_batch_size=2, node=allowed) as loader:
                samples = [key for microbatch in loader for key in microbatch.sample_keys]
            self.assertEqual({key.split("/")[0] for key in samples}, {"cut.tar", "whole.tar"})

    @staticmethod
    def add_shard_with_a_bad_sample(directory):
        with tarfile.open(pathlib.Path(directory) / "bad.tar", "w") as shard:
            for name, body in (("a.txt", b"good"), ("b.png", b"no picture"), ("c.txt", b"good")):
                member = tarfile.TarInfo(name)
                member.size = len(body)
                shard.addfile(member, io.BytesIO(body))

    def test_bad_samples_end_training_where_asked(self):
        with tempfile.TemporaryDirectory() as directory:
            self.add_shard_with_a_bad_sample(directory)
            self.assertRefused(isocost.ShardError, "bad.tar/b.*on_bad_sample", source=directory,
                               node=isocost.NodeOptions(on_bad_sample="fail"))
            with self.loader(directory, global_batch_size=2) as loader:
                self.assertGreaterEqual(sum(len(m.sample_ids) for m in loader), 1)

    def test_a_memory_limit_that_cannot_be_kept_is_a_value_error(self):
        self.assertRefused(ValueError, "microbatch", node=isocost.NodeOptions(microbatch_memory=1000))
        self.assertRefused(ValueError, "no usable sample.*microbatch_memory allows 10 in a microbatch: raise it",
                           node=isocost.NodeOptions(microbatch_memory=10))

    def test_too_many_bad_samples_are_a_shard_error(self):
        with tempfile.TemporaryDirectory() as directory:
            self.add_shard_with_a_bad_sample(directory)
            self.assertRefused(isocost.ShardError, "1 bad sample, max_bad_samples allows 0", source=directory,
                               node=isocost.NodeOptions(max_bad_samples=0))

    def test_settings_that_contradict_each_other(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", isocost.KeywordNote)
            self.assertRefused(ValueError, "^global_batch_size = 16 and batch_size = 2 contradict each other: 2 x 1 "
                                           r"rank x 2 \(microbatches=\) is 4", batch_size=2)
            with self.loader(batch_size=8) as loader:
                self.assertEqual(loader.batch_size, 8)
            self.assertRefused(ValueError, "^timeout= and heartbeat_timeout=", timeout=3, heartbeat_timeout=3)
            self.assertRefused(ValueError, "^num_workers= and workers=", num_workers=2, workers=2)
            self.assertRefused(ValueError, "^prefetch= and prefetch_factor=", prefetch=3, prefetch_factor=4)
            self.assertRefused(ValueError, r"^num_workers= and node=isocost.NodeOptions\(workers=...\)", num_workers=2,
                               node=isocost.NodeOptions(workers=0))
            for tail in ("carry", "deliver"):
                self.assertRefused(ValueError, f"^drop_last=True and tail='{tail}'", drop_last=True,
                                   node=isocost.NodeOptions(tail=tail))

    def test_importing_needs_neither_torch_nor_numpy(self):
        code = "import isocost, sys; print({'numpy', 'torch'} & set(sys.modules))"
        found = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=TIMEOUT)
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertEqual(found.stdout, "set()\n")

    def test_without_torch_it_says_what_to_install(self):
        with unittest.mock.patch.dict(sys.modules, {"torch": None}):
            with self.assertRaisesRegex(ImportError, "install it .pip install torch"):
                self.loader()

    def test_a_torch_that_is_too_old_is_named(self):
        for version in ("1.9.1", "1.12.0+cpu"):
            with unittest.mock.patch("torch.__version__", version), \
                    self.assertRaisesRegex(ImportError, f"needs PyTorch 1.13 or newer.*{re.escape(version)}"):
                isocost.DataLoader(self.shards)

    def test_endpoints(self):
        self.assertRefused(TimeoutError, "no answer from tcp://127.0.0.1:1 within 0.2 s: nobody listens at "
                           "tcp://127.0.0.1:1: is the node up",
                           connect_timeout=0.2, source="tcp://127.0.0.1:1", global_batch_size=None, microbatches=None)
        self.assertRefused(ValueError, "global_batch_size, microbatches: the node decides",
                           source="tcp://127.0.0.1:1")
        self.assertRefused(ValueError, "'tcp://127.0.0.1'", source="tcp://127.0.0.1", global_batch_size=None,
                           microbatches=None)

    def test_settings_of_the_node_are_refused_with_an_endpoint(self):
        for name, value in (("shuffle", False), ("drop_last", True), ("num_workers", 3), ("epochs", 2), ("seed", 1),
                            ("timeout", 3), ("heartbeat_timeout", 3), ("workers", 2), ("memory", "1GiB"),
                            ("profile", "a.json"), ("recipe", "native28"), ("node", isocost.NodeOptions())):
            with warnings.catch_warnings(record=True) as notes:
                warnings.simplefilter("always", isocost.KeywordNote)
                with unittest.mock.patch.object(isocost.options.keywords, "_noted", set()):  # none was said before
                    self.assertRefused(ValueError, f"^{name}: the node decides", source="tcp://127.0.0.1:1",
                                       global_batch_size=None, microbatches=None, **{name: value})
            self.assertEqual(notes, [])  # that it is used, say

    def test_values_of_other_kinds(self):
        for name, value in (("connect_timeout", math.inf), ("connect_timeout", -1), ("prefetch", 2**32),
                            ("prefetch", 0), ("timeout", -1), ("timeout", 1e7), ("heartbeat_timeout", -1),
                            ("heartbeat_timeout", 0), ("epochs", -1), ("device", "no such"), ("device", "cuda:99")):
            self.assertRefused(ValueError, f"^{name} = ", **{name: value})
        self.assertRefused(ValueError, "^rank = ", rank=0.5, world_size=1)
        self.assertRefused(ValueError, "^rank = ", rank="0", world_size=1)
        for name, value in (("transform", 3), ("collate", 3), ("count_tokens", 3), ("generator", 3), ("shuffle", "no"),
                            ("drop_last", "False"), ("pin_memory", "no"), ("endless", "False")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", isocost.KeywordNote)
                self.assertRefused(TypeError, f"^{name} = ", **{name: value})

    def test_a_rank_that_is_taken_or_too_many(self):
        _, endpoint = self.serve("--ranks", 2)
        options = {"source": endpoint, "global_batch_size": None, "microbatches": None}
        with isocost.DataLoader(endpoint, rank=0, world_size=2) as first:
            next(iter(first))  # joins
            self.assertRefused(FileExistsError, "rank 0 is taken", rank=0, world_size=2, **options)
            self.assertRefused(ValueError, "rank 1 expects a world size of 4", rank=1, world_size=4, **options)

    def test_states(self):
        with self.loader() as loader:
            next(iter(loader))
            good = loader.state_dict()
            for state, pattern in (({}, "no state"), (dict(good, version=4), "'version' is 4; .*: load it with"),
                                   (dict(good, step=-1), "'step' must be"),
                                   ({"version": 2, "epoch": 0}, "'cursor' is missing"),
                                   (dict(good, cursor="xyz"), "'cursor' must be a hexadecimal"),
                                   (dict(good, epoch="one"), "'epoch' must be"),
                                   (dict(good, step=2.7), "'step' must be"),
                                   (dict(good, step=object()), "not JSON serializable"),
                                   (None, "no state")):
                with self.assertRaisesRegex(ValueError, pattern):
                    loader.load_state_dict(state)
            self.assertEqual(loader.state_dict(), good)
        with self.loader(seed=1) as other:
            other.load_state_dict(good)
            for use, who in ((len, "a client"), (lambda loader: next(iter(loader)), "rank 0")):
                with self.assertRaisesRegex(ValueError, f"{who} resumes a state of other data or another order"):
                    use(other)

    def test_a_killed_node_is_reported(self):
        node, endpoint = self.serve("--ranks", 1, "--heartbeat-timeout", 1)
        with isocost.DataLoader(endpoint) as loader:
            iterator = iter(loader)
            next(iterator)
            node.kill()
            self.assertEqual(node.wait(), -signal.SIGKILL)
            with self.assertRaisesRegex(isocost.NodeUnavailableError, "has sent nothing for"):
                for _ in iterator:
                    pass

    def test_a_closed_loader(self):
        loader = self.loader()
        iterator = iter(loader)
        next(iterator)
        loader.close()
        loader.close()
        for use in (lambda: next(iterator), lambda: len(loader)):
            with self.assertRaisesRegex(isocost.ClosedError, "closed"):
                use()


if __name__ == "__main__":
    main()
