"""Mixtures of data sets with the options of a model, with lengths that only the trainer knows, and in the Trainer."""

import importlib.util
import json
import pathlib
import subprocess
import unittest

import torch

import isocost
from support import PROGRAM, TIMEOUT, ShardTest, main
from training_runs import Runs
from transform_test import lengths, tokenise

NEEDED = ("transformers", "tokenizers", "jinja2", "PIL", "torchvision")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import model_directories
    from dummy_media_test import write_shards
    from model_test import this_python_first

STEPS = 6


def write_mixture(file, sources):
    """A mixture of {name: (path, proportion)}."""
    file.write_text(f"steps = {STEPS}\n" + "\n".join(
        f'[[source]]\nname = "{name}"\npath = "{path}"\nproportion = {proportion}\n'
        for name, (path, proportion) in sources.items()))
    return file


def sources_of(keys):
    return [key.split("/")[0] for key in keys]


class Lengths(ShardTest):
    def test_lengths_that_the_trainer_knows(self):
        shards = sorted(pathlib.Path(self.shards).glob("*.tar"))
        mixture = write_mixture(self.directory / "mixture.toml", {"one": (shards[0], 1), "two": (shards[1], 3)})
        options = {"global_batch_size": 8, "microbatches": 1, "node": isocost.NodeOptions(balance="in-order")}
        found = []
        with isocost.DataLoader(mixture, transform=tokenise, count_tokens=lengths, **options) as loader, \
                isocost.DataLoader(mixture, **options) as without:
            for ours, theirs in zip(loader, without):
                self.assertEqual(ours.sample_keys, theirs.sample_keys)
                self.assertLess(ours.global_label_tokens, theirs.global_label_tokens)
                self.assertEqual(int((ours["labels"] != -100).sum()), ours.label_tokens)
                found.append(sources_of(ours.sample_keys).count("two"))
        self.assertEqual(found, [6] * STEPS)


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class OfAModel(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = model_directories.make(cls.directory / "model", "qwen2_vl")
        cls.mixture = write_mixture(cls.directory / "mixture.toml", {
            "pictures": (write_shards(cls.directory / "pictures", 24, lambda _i: True), 1),
            "texts": (write_shards(cls.directory / "texts", 24, lambda _i: False), 7)})
        subprocess.run([PROGRAM, "tokenize", cls.mixture, "--model", cls.model], check=True, capture_output=True,
                       timeout=TIMEOUT, env=this_python_first())

    def epoch(self, **options):
        """The microbatches of an epoch."""
        with isocost.DataLoader(self.mixture, model=self.model, global_batch_size=8, **options) as loader:
            self.assertEqual(len(isocost.steps(loader)), STEPS)
            return list(loader)

    def by_step(self, microbatches):
        steps = {}
        for microbatch in microbatches:
            steps.setdefault(microbatch.step, []).extend(microbatch.sample_keys)
        return {step: sorted(keys) for step, keys in steps.items()}

    def json_of(self, *arguments):
        done = subprocess.run([PROGRAM, "data", *arguments, "--json"], check=True, capture_output=True, timeout=TIMEOUT,
                              text=True)
        return json.loads(done.stdout)

    def test_data_commands_know_the_tokens_of_a_model(self):
        other = model_directories.make(self.directory / "other", "qwen3_vl")
        for model, is_stale in ((self.model, False), (other, True)):
            for shard in self.json_of("ls", self.mixture, "--model", model)["shards"]:
                self.assertTrue(shard["tokens"]["there"])
                self.assertEqual("problem" in shard["tokens"], is_stale, shard)
        key = "texts/shard-000000.tar/c004"
        shown = self.json_of("show", self.mixture, key, "--model", self.model)
        predicted = json.loads(subprocess.run(
            [PROGRAM, "predict", "--data", self.mixture, "--sample", key, "--model", self.model, "--json"], check=True,
            capture_output=True, timeout=TIMEOUT, text=True).stdout)
        self.assertEqual(shown["model"], predicted["sample"])
        step = self.json_of("step", self.mixture, "0", "--model", self.model, "--global-batch-size", "8")
        [first, *_others] = self.by_step(self.epoch(microbatches=1)).values()
        self.assertEqual(sorted(row["sample"] for row in step["drawn"]), first)
        for row in step["drawn"]:
            if row["sample"] == key:
                self.assertEqual(row["tokens"], predicted["sample"]["tokens"])

    def test_microbatches_without_pictures_get_dummies(self):
        plain = self.by_step(self.epoch(microbatches=1))
        for keys in plain.values():
            self.assertEqual(sources_of(keys), ["pictures"] + 7 * ["texts"])
        _node, endpoint = self.serve("--model", self.model, "--ranks", 2, "--global-batch-size", 8, "--microbatches", 1,
                                     data=self.mixture)
        first = []
        for rank in (0, 1):
            with isocost.DataLoader(endpoint, rank=rank, world_size=2, model=self.model) as loader:
                first.append(next(iter(loader)))
        self.assertEqual(sorted(first[0].sample_keys + first[1].sample_keys), plain[0])
        for microbatch in first:
            self.assertEqual(microbatch.dummies, 0 if "pictures" in sources_of(microbatch.sample_keys) else 1)

    def test_limits_and_what_is_too_long(self):
        whole = self.epoch(microbatches=1)
        listed = self.json_of("ls", self.mixture, "--model", self.model, "--samples")
        longest = max(sample["tokens"] for shard in listed["shards"] for sample in shard["usable_samples"])
        for on_long in ("bad", "truncate"):
            node = isocost.NodeOptions(max_bad_samples=24)
            limited = self.epoch(max_tokens=longest, on_long=on_long, node=node)
            self.assertEqual(self.by_step(limited), self.by_step(whole))
            self.assertLessEqual(max(microbatch["input_ids"].shape[1] for microbatch in limited), longest)
            shorter = self.epoch(max_tokens=longest - 1, on_long=on_long, node=node)
            for keys in self.by_step(shorter).values():
                self.assertEqual(sources_of(keys), ["pictures"] + 7 * ["texts"])
            self.assertLess(max(microbatch["input_ids"].shape[1] for microbatch in shorter), longest)

    def test_losses_by_source_of_padded_rows(self):
        for batching in ("packed", isocost.Padded("left", 8)):
            with isocost.DataLoader(self.mixture, model=self.model, global_batch_size=8, microbatches=2,
                                    batching=batching) as loader:
                for microbatch in loader:
                    labels = microbatch["labels"]
                    losses = torch.where(labels[..., 1:] == -100, 1e9, labels[..., 1:].double())
                    found = isocost.losses_by_source(microbatch, losses, ["pictures", "texts"])
                    self.assertEqual(int(found.counts.sum()), microbatch.label_tokens)
                    own = microbatch.packed["labels"].split(microbatch.packed["lengths"].tolist())
                    for i, name in enumerate(found.names):
                        expected = [label for key, labels in zip(microbatch.sample_keys, own)
                                    if key.startswith(name + "/") for label in labels.tolist() if label != -100]
                        self.assertEqual(found.sums[i], sum(expected))
                        self.assertEqual(found.counts[i], len(expected))


class InTheTrainer(Runs):
    def test_its_losses_are_those_of_a_plain_loop(self):
        mixture = write_mixture(self.directory / "mixture.toml", {
            "large": (self.directory / "train", 3), "small": (self.directory / "held_out", 1)})
        more = ("--epochs", 1, "--data", mixture)
        plain = self.run_with("qwen2_5_vl", "--plain", *more)
        self.assertEqual(sorted(plain.losses), list(range(1, STEPS + 1)))
        for ranks in (1, 2):
            found = self.run_with("qwen2_5_vl", *more, ranks=ranks, output=f"mixture-{ranks}")
            self.assert_equal(found, plain)
            for step in range(1, STEPS + 1):
                self.assertEqual(sum(sample < 46 for sample in found.samples[step]), 6, step)
                self.assertEqual(len(found.samples[step]), 8)


if __name__ == "__main__":
    main()
