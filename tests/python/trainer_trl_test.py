"""trl's SFTTrainer and peft's adapters on a loader: losses and gradients are those of a loop over steps, also of a run
that was killed."""

import importlib.util
import unittest

import isocost
from support import main
from training_runs import STEPS, Runs

MISSING = [name for name in ("peft", "trl") if importlib.util.find_spec(name) is None]


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Adapted(Runs):
    def test_low_rank_adapters(self):
        plain = self.run_with("qwen2_5_vl", "--lora", "--plain")
        for ranks in (1, 2):
            found = self.run_with("qwen2_5_vl", "--lora", ranks=ranks, output=f"lora-{ranks}")
            self.assert_equal(found, plain)
        self.assertTrue((self.directory / "lora-1" / f"checkpoint-{STEPS}" / "adapter_model.safetensors").exists())

    def test_trl(self):
        more = "qwen2_5_vl", "--max-tokens", "600"
        plain = self.run_with(*more, "--plain")
        for ranks, checkpointing in ((1, []), (2, ["--checkpointing"])):
            found = self.run_with(*more, "--trl", *checkpointing, ranks=ranks, output=f"trl-{ranks}")
            self.assert_equal(found, plain)
            self.assertEqual(found.tokens, plain.tokens)
            self.assertEqual(found.trl_tokens, plain.tokens)
            for logged in found.evaluations:  # has what trl measures of an evaluation, and nothing of training
                self.assertIn("eval_mean_token_accuracy", logged)
                self.assertNotIn("mean_token_accuracy", logged)

    def test_low_rank_adapters_of_trl(self):
        plain = self.run_with("qwen2_5_vl", "--lora", "--plain")
        for ranks in (1, 2):
            found = self.run_with("qwen2_5_vl", "--lora", "--trl", ranks=ranks, output=f"both-{ranks}")
            self.assert_equal(found, plain)

    def test_a_killed_run_of_trl_goes_on(self):
        self.check_killed("qwen2_5_vl", "--max-tokens", "600", "--trl", ranks=(1,))

    def test_a_killed_run_of_trl_with_adapters_goes_on(self):
        self.check_killed("qwen3_5", "--lora", "--trl", ranks=(1,))

    def test_a_template_that_trl_sets_is_compared_with_the_directorys(self):
        import transformers
        import trl

        from isocost.integrations.transformers import trainer_class
        from trainer_run import settings_of

        directory, template = self.model("qwen2_5_vl"), self.directory / "other.jinja"
        template.write_text("{% for message in messages %}{{ message.content }}{% endfor %}")
        settings = settings_of(self.directory / "template", trl.SFTConfig, chat_template_path=str(template))
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)
        with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8,
                                microbatches=2) as loader:
            with self.assertRaisesRegex(ValueError, "^processing_class: chat_template from character "):
                trainer_class(trl.SFTTrainer)(model, settings, train_dataset=loader)
            packed = settings_of(self.directory / "template", trl.SFTConfig, packing=True)
            with self.assertRaisesRegex(ValueError, "^packing = True: the loader makes the rows, packed or padded"):
                trainer_class(trl.SFTTrainer)(model, packed, train_dataset=loader)


if __name__ == "__main__":
    main()
