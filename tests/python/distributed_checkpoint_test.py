"""A loader in checkpoints of torch.distributed.checkpoint, also in those that the version before has written."""

import unittest

import torch

import isocost
from support import ShardTest, main

try:
    from torch.distributed import checkpoint as distributed_checkpoint
    from torch.distributed.checkpoint.stateful import Stateful
except ImportError:
    Stateful = None


@unittest.skipIf(Stateful is None, "no torch.distributed.checkpoint with Stateful (torch 2.2): ./run test --torch2")
class DistributedCheckpoint(ShardTest):
    def loader(self):
        made = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        self.addCleanup(made.close)
        return made

    def trained(self, steps):
        """Returns a loader whose first steps are trained, and the samples of the others."""
        loader, rest = self.loader(), []
        for each in loader:
            if each.step < steps:
                loader.state_dict(after=each)
            else:
                rest.append(each.sample_ids)
        return loader, rest

    def rest_of(self, loader):
        return [each.sample_ids for each in loader]

    def test_a_checkpoint_is_loaded_into_a_fresh_loader(self):
        loader, rest = self.trained(2)
        self.assertIsInstance(loader, Stateful)
        distributed_checkpoint.save({"loader": loader, "weight": torch.ones(3)}, checkpoint_id=self.directory / "whole")
        resumed, weight = self.loader(), torch.zeros(3)
        distributed_checkpoint.load({"loader": resumed, "weight": weight}, checkpoint_id=self.directory / "whole")
        self.assertEqual(self.rest_of(resumed), rest)
        self.assertEqual(weight.tolist(), [1, 1, 1])

    def test_a_checkpoint_of_version_2_is_loaded_by_its_keys(self):
        """A fresh loader's state has a key that this checkpoint lacks, and torch names it. docs/frameworks.md says how
        to go on."""
        loader, rest = self.trained(2)
        saved = {**loader.state_dict(), "version": 2}
        del saved["mixture"]
        folder = self.directory / "version-2"
        distributed_checkpoint.save({"loader": saved, "weight": torch.ones(3)}, checkpoint_id=folder)
        weight = torch.zeros(3)
        with self.assertRaisesRegex(distributed_checkpoint.CheckpointException, "Missing key .*loader.mixture"):
            distributed_checkpoint.load({"loader": self.loader(), "weight": weight}, checkpoint_id=folder)

        resumed = self.loader()
        state = resumed.state_dict()
        del state["mixture"]
        distributed_checkpoint.load({"loader": state, "weight": weight}, checkpoint_id=folder)
        resumed.load_state_dict(state)
        self.assertEqual(self.rest_of(resumed), rest)
        self.assertEqual(weight.tolist(), [1, 1, 1])

    def test_a_partial_load_takes_a_state_of_version_2(self):
        loader, rest = self.trained(2)
        saved = {**loader.state_dict(), "version": 2}
        del saved["mixture"]
        folder = self.directory / "partial"
        distributed_checkpoint.save({"loader": saved}, checkpoint_id=folder)
        resumed = self.loader()
        partial = distributed_checkpoint.DefaultLoadPlanner(allow_partial_load=True)
        distributed_checkpoint.load({"loader": resumed}, checkpoint_id=folder, planner=partial)
        self.assertEqual(self.rest_of(resumed), rest)

    def test_the_keys_of_version_2_do_not_load_a_state_of_version_3(self):
        """Its mixture would be lost without a word."""
        loader, _ = self.trained(2)
        folder = self.directory / "version-3"
        distributed_checkpoint.save({"loader": loader}, checkpoint_id=folder)
        resumed = self.loader()
        state = resumed.state_dict()
        del state["mixture"]
        distributed_checkpoint.load({"loader": state}, checkpoint_id=folder)
        with self.assertRaisesRegex(ValueError, "'mixture' is missing"):
            resumed.load_state_dict(state)


if __name__ == "__main__":
    main()
