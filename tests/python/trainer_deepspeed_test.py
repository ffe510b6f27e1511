"""The Trainer's own settings of DeepSpeed on a loader: with each stage of ZeRO, losses and norms of gradients of two
ranks are those of a loop over steps."""

import importlib.util
import os
import unittest

import isocost
from support import main
from training_runs import MISSING, Runs

if not MISSING:
    import transformers

FAMILY = "qwen2_5_vl"  # two microbatches a rank and step


@unittest.skipUnless(importlib.util.find_spec("deepspeed"),
                     "deepspeed is not installed: ./run test --torch2 --deepspeed has it")
class Zero(Runs):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        os.environ["DS_ACCELERATOR"] = "cpu"
        cls.plain = cls("check").run_with(FAMILY, "--plain")

    def check(self, stage):
        found = self.run_with(FAMILY, "--zero", stage, ranks=2, output=f"zero-{stage}")
        self.assert_equal(found, self.plain, within=1e-4)
        self.assert_all_samples(found)

    def test_optimizer_states_over_the_ranks(self):
        self.check(1)

    def test_gradients_over_the_ranks(self):
        self.check(2)

    def test_weights_over_the_ranks(self):
        self.check(3)

    def test_a_killed_run_goes_on(self):
        self.check_killed(FAMILY, "--zero", 3, ranks=(2,), undisturbed=2)

    def test_what_an_engine_cannot_have_is_refused(self):
        from isocost.integrations.transformers import Trainer
        from trainer_run import settings_of, zero

        directory = self.model(FAMILY)
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)

        def trainer(**more):
            settings = settings_of(self.directory / "refused", deepspeed={**zero(2), **more})
            return Trainer(model, settings, train_dataset=loader, eval_dataset=loader)

        with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8,
                                microbatches=2) as loader:
            with self.assertRaisesRegex(ValueError, "^autotp_size = 2: its ranks compute on one batch together"):
                trainer(tensor_parallel={"autotp_size": 2})
            without_clipping = {name: value for name, value in zero(2).items() if name != "gradient_clipping"}
            with self.assertRaisesRegex(ValueError, "^max_grad_norm = 0.5: DeepSpeed's configuration has no "
                                                    "gradient_clipping, and its engine clips at its default of 1.0"):
                Trainer(model, settings_of(self.directory / "refused", deepspeed=without_clipping),
                        train_dataset=loader)
            with self.assertRaisesRegex(ValueError, "(?s)gradient_accumulation_steps"):
                trainer(gradient_accumulation_steps=2).train()
            with self.assertRaisesRegex(ValueError, r"^evaluate: train\(\) makes DeepSpeed's engine"):
                trainer().evaluate()


if __name__ == "__main__":
    main()
