"""Mixtures of experts in the Trainer and in trl's SFTTrainer on two ranks: losses and norms of gradients are those of a
plain loop, to which trl adds the auxiliary loss that balances experts."""

import importlib.util
import unittest

from support import main
from training_runs import Runs

AUXILIARY_WEIGHT = 0.001  # router_aux_loss_coef, as the configurations leave it


class Mixtures(Runs):
    def test_qwen3_5_in_padded_rows(self):
        self.check("qwen3_5_moe")

    def test_qwen3_vl_in_packed_rows(self):
        self.check("qwen3_vl_moe")

    def check(self, family):
        plain = self.run_with(family, "--plain")
        found = self.run_with(family, ranks=2, output=family)
        self.assert_equal(found, plain)
        self.assert_all_samples(found)

    @unittest.skipUnless(importlib.util.find_spec("trl"), "trl is not installed: ./run test --torch2 has it")
    def test_the_auxiliary_loss_of_trl_is_a_mean_over_microbatches_and_ranks(self):
        plain = self.run_with("qwen3_vl_moe", "--plain", "--epochs", 1)
        for ranks in (1, 2):
            found = self.run_with("qwen3_vl_moe", "--trl", "--epochs", 1, ranks=ranks, output=f"trl-{ranks}")
            added = found.losses[1] - plain.losses[1]
            self.assertAlmostEqual(added / (AUXILIARY_WEIGHT * found.auxiliary[1]), 1, delta=1e-3)
            [first, *_rest] = found.evaluations  # Weights are no longer those of the plain loop, but nearly.
            added = first["eval_loss"] - plain.evaluated[first["step"]]
            self.assertAlmostEqual(added / (AUXILIARY_WEIGHT * first["eval_aux_loss"]), 1, delta=0.1)


    @unittest.skipUnless(importlib.util.find_spec("trl"), "trl is not installed: ./run test --torch2 has it")
    def test_the_auxiliary_loss_of_the_configuration_is_that_of_trl(self):
        # Under DistributedDataParallel transformers' outputs of Qwen3-VL's do not take their router_logits.
        for family, ranks in (("qwen3_vl_moe", 1), ("qwen3_5_moe", 2)):
            more = ("--epochs", 1)
            theirs = self.run_with(family, "--trl", *more, ranks=ranks, output=f"theirs-{family}-{ranks}")
            found = self.run_with(family, "--router-logits", *more, ranks=ranks, output=f"found-{family}-{ranks}")
            self.assert_equal(found, theirs)


if __name__ == "__main__":
    main()
