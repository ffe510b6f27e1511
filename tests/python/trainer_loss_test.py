"""A Trainer's own compute_loss, and what of a trainer or model cannot be a loader's, in plain words."""

import contextlib
import importlib.util
import unittest
from unittest import mock

import isocost
from support import learned, main
from training_runs import MISSING, Runs

if not MISSING:
    import torch
    import transformers


class Losses(Runs):
    def test_a_loss_of_ones_own_is_the_share_of_the_global_batch(self):
        plain = self.run_with("qwen2_5_vl", "--plain")
        for ranks in (1, 2):
            found = self.run_with("qwen2_5_vl", "--own-loss", ranks=ranks, output=f"own-{ranks}")
            self.assert_equal(found, plain)

    def trainer(self, base, loader, model=None, **options):
        from isocost.integrations.transformers import trainer_class

        settings = transformers.TrainingArguments(self.directory / "refused", report_to=[], use_cpu=True)
        return trainer_class(base)(model or self.loaded("qwen2_5_vl"), settings, train_dataset=loader, **options)

    def loaded(self, family):
        return transformers.AutoModelForImageTextToText.from_pretrained(self.model(family))

    def loader(self, family="qwen2_5_vl", **options):
        made = isocost.DataLoader(self.directory / "train", model=self.model(family), global_batch_size=8,
                                  microbatches=2, **options)
        self.addCleanup(made.close)
        return made

    def test_a_loss_that_cannot_be_a_share_is_refused(self):
        from isocost.integrations.transformers import Trainer
        from trainer_run import OwnLoss

        class Mean(transformers.Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                """Knows no items of a batch."""

        class Later(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                """Comes before the integration's."""

        with self.assertRaisesRegex(ValueError, "^compute_loss of Mean has no num_items_in_batch: .* divide by it"):
            self.trainer(Mean, self.loader())
        settings = transformers.TrainingArguments(self.directory / "refused", report_to=[], use_cpu=True)
        with self.assertRaisesRegex(ValueError, r"^compute_loss of Later would take the place .* trainer_class\(\)"):
            Later(self.loaded("qwen2_5_vl"), settings, train_dataset=self.loader())
        with self.assertRaisesRegex(ValueError, '^loss="token_loss" of the loader: .* give loss="model"'):
            self.trainer(OwnLoss, self.loader(loss="token_loss")).train()

    def test_the_language_model_alone_is_refused(self):
        model = transformers.AutoModelForCausalLM.from_pretrained(self.model("qwen3_5"))
        with self.assertRaisesRegex(ValueError, "^the model is a Qwen3_5ForCausalLM, the language model .* alone, "
                                                "which takes no media: load it with .*AutoModelForImageTextToText"):
            self.trainer(transformers.Trainer, self.loader("qwen3_5"), model)

    def test_data_to_evaluate_are_checked_when_they_are_given(self):
        trainer = self.trainer(transformers.Trainer, self.loader())
        with self.assertRaisesRegex(ValueError, "model_type is qwen2_5_vl, and the loader prepares .* is qwen3_5"):
            trainer.evaluate(self.loader("qwen3_5"))
        with self.assertRaisesRegex(ValueError, "ends after 1 epoch, and each evaluation takes one"):
            trainer.evaluate(self.loader(epochs=1))

    def test_a_trainer_without_a_loader_refuses_one_to_evaluate_as_with_one(self):
        from isocost.integrations.transformers import trainer_class
        from trainer_run import OwnLoss

        class Mean(OwnLoss):
            def compute_loss(self, model, inputs, return_outputs=False):
                """Knows no items of a batch."""

        for base, setting, argument, message in (
                (transformers.Trainer, {"label_smoothing_factor": 0.1}, {}, "^label_smoothing_factor = 0.1: "),
                (transformers.Trainer, {}, {"compute_loss_func": lambda *_: None}, "^compute_loss_func= cannot be"),
                (transformers.Trainer, {}, {"compute_metrics": lambda _: {}}, "^compute_metrics= cannot be"),
                (Mean, {}, {}, "^compute_loss of Mean has no num_items_in_batch")):
            settings = transformers.TrainingArguments(self.directory / "refused", report_to=[], use_cpu=True, **setting)
            trainer = trainer_class(base)(self.loaded("qwen2_5_vl"), settings, **argument)
            with self.assertRaisesRegex(ValueError, message):
                trainer.evaluate(self.loader())
            if setting:
                with self.assertRaisesRegex(ValueError, message):
                    trainer_class(base)(self.loaded("qwen2_5_vl"), settings, eval_dataset=self.loader())

    def test_all_microbatches_of_a_step_but_the_last_leave_the_sum_over_ranks_to_it_and_are_timed(self):
        from isocost.integrations.transformers import Trainer

        loader = self.loader()
        settings = transformers.TrainingArguments(self.directory / "timed", report_to=[], use_cpu=True, max_steps=3,
                                                  save_strategy="no", disable_tqdm=True)
        synchronised = []
        trainer = Trainer(self.loaded("qwen2_5_vl"), settings, train_dataset=loader)
        inside = []

        @contextlib.contextmanager
        def no_sync(_model):
            inside.append(True)
            yield
            inside.pop()

        trainer.model.register_forward_pre_hook(lambda *_: synchronised.append(not inside))
        with mock.patch.object(trainer.accelerator, "no_sync", no_sync):
            trainer.train()
        self.assertEqual(synchronised, [False, True] * 3)
        self.assertEqual(learned(loader)[0], 4)  # The last step's are sent when another one is asked for.

    @unittest.skipUnless(importlib.util.find_spec("trl"), "trl is not installed: ./run test --torch2 has it")
    def test_other_trainers_of_trl_are_refused(self):
        import trl

        with self.assertRaisesRegex(ValueError, "^DPOTrainer: of trl's trainers SFTTrainer alone"):
            self.trainer(trl.DPOTrainer, self.loader())
        with self.assertRaisesRegex(ValueError, "^formatting_func= cannot be used"):
            self.trainer(trl.SFTTrainer, self.loader(), formatting_func=str)

    def test_weights_of_several_dtypes_are_loaded_as_they_were_saved(self):
        from isocost.integrations.trainer_checkpoints import load_renamed_weights

        model = self.loaded("qwen2_5_vl")
        model.model.visual.bfloat16()
        saved = {name: value.clone() for name, value in model.state_dict().items()}
        model.save_pretrained(self.directory / "mixed")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        load_renamed_weights(model, self.directory / "mixed")
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, saved[name]), name)


if __name__ == "__main__":
    main()
