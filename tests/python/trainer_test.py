"""transformers' Trainer on a loader: losses, gradients, evaluation and resumed runs are those of a loop over steps."""

import importlib.util
import json
import os
import shutil
import unittest.mock

import isocost
from support import main
from training_runs import MISSING, STEPS, Runs

if not MISSING:
    import torch
    import transformers


class Training(Runs):
    def check(self, family, *more):
        plain = self.run_with(family, *more, "--plain")
        self.assertEqual((len(plain.losses), len(plain.evaluated)), (STEPS, STEPS // 3))
        self.assertLess(plain.losses[STEPS], plain.losses[1])
        for ranks in (1, 2):
            found = self.run_with(family, *more, ranks=ranks, output=f"{family}-{ranks}")
            self.assert_equal(found, plain)
            self.assertEqual(found.tokens, plain.tokens)
            self.assert_all_samples(found)
        return plain

    def test_qwen2_5_vl_with_a_limit_of_tokens(self):
        plain = self.check("qwen2_5_vl", "--max-tokens", "600")
        recomputed = self.run_with("qwen2_5_vl", "--max-tokens", "600", "--checkpointing", output="recomputed")
        self.assert_equal(recomputed, plain)

    def test_qwen2_5_vl_sharded_over_the_ranks(self):
        more = "qwen2_5_vl", "--max-tokens", "600"
        self.assert_equal(self.run_with(*more, "--sharded", ranks=2, output="sharded"), self.run_with(*more, "--plain"))

    def test_token_loss(self):
        plain = self.run_with("qwen2_5_vl", "--plain")
        self.assert_equal(self.run_with("qwen2_5_vl", "--token-loss", output="token_loss"), plain)

    def test_a_float64_model_has_one_evaluation_on_any_number_of_ranks(self):
        # The loss of transformers' models themselves is computed in float32.
        [one, two, three] = (self.run_with("qwen2_5_vl", "--evaluates", "--token-loss", ranks=ranks).evaluated[0]
                             for ranks in (1, 2, 3))
        self.assertAlmostEqual(two / one, 1, delta=1e-9)
        self.assertAlmostEqual(three / one, 1, delta=1e-9)

    def test_an_epoch_that_is_left_early_is_told_and_the_next_one_follows(self):
        from isocost.integrations.transformers import Trainer

        class LeavesEarly(transformers.TrainerCallback):
            def on_step_end(self, args, state, control, **rest):
                control.should_epoch_stop = state.global_step == 2

        directory = self.model("qwen2_5_vl")
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)
        settings = transformers.TrainingArguments(self.directory / "early", report_to=[], use_cpu=True,
                                                  num_train_epochs=2, disable_tqdm=True, save_steps=4)
        at = []
        with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8,
                                microbatches=2) as loader:
            class Watched(Trainer):
                def training_step(self, model, inputs, *rest):
                    at.append((inputs[0].epoch, inputs[0].step))
                    return super().training_step(model, inputs, *rest)

            trainer = Watched(model, settings, train_dataset=loader, callbacks=[LeavesEarly()])
            with self.assertLogs("isocost", "WARNING") as logs:
                trainer.train()
            self.assertIn("epoch 0 was left at step 2: the rest of it is not trained on", "".join(logs.output))
            self.assertEqual(at, [(0, 0), (0, 1), *((1, step) for step in range(6))])
            at.clear()
            trainer.train(resume_from_checkpoint=self.directory / "early" / "checkpoint-4")
            self.assertEqual(at[:5], [*((1, step) for step in range(2, 6)), (2, 0)])
            at.clear()
            trainer.train()
            self.assertEqual(at[0], (0, 0))

    def test_qwen3_5_in_padded_rows(self):
        self.check("qwen3_5")

    def test_a_killed_run_goes_on_with_other_numbers_of_ranks(self):
        self.check_killed("qwen2_5_vl", "--max-tokens", "600", ranks=(1, 3))

    def test_what_the_trainer_cannot_have_is_refused_before_the_first_step(self):
        from isocost.integrations.transformers import Trainer

        directory = self.model("qwen2_5_vl")
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)

        def loader(**options):
            made = isocost.DataLoader(self.directory / "train", **{"model": directory, "global_batch_size": 8,
                                                                   "microbatches": 2, **options})
            self.addCleanup(made.close)
            return made

        def trainer(train, arguments=(), **options):
            settings = transformers.TrainingArguments(self.directory / "refused", report_to=[], use_cpu=True,
                                                      disable_tqdm=True, **dict(arguments))
            return Trainer(model, settings, train_dataset=train, **options)

        plain = loader()
        for wrong, message in (
                ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps = 2: a batch is a whole step"),
                ({"label_smoothing_factor": 0.1}, "label_smoothing_factor = 0.1"),
                ({"auto_find_batch_size": True}, "auto_find_batch_size = True: .*max_memory="),
                ({"accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 2}}},
                 "gradient_accumulation_steps = 2: a batch is a whole step")):
            with self.assertRaisesRegex(ValueError, f"^{message}"):
                trainer(plain, wrong)
        for wrong in ("data_collator", "compute_loss_func", "compute_metrics", "preprocess_logits_for_metrics"):
            with self.assertRaisesRegex(ValueError, f"^{wrong}= cannot be used.*leave it out"):
                trainer(plain, **{wrong: lambda *_: None})
        from transformers.distributed import DistributedConfig

        model.config.distributed_config = DistributedConfig(tp_size=2)
        with self.assertRaisesRegex(ValueError, "^tp_size = 2: its ranks compute on one batch together"):
            trainer(plain)
        model.config.distributed_config = None
        with self.assertRaisesRegex(TypeError, "^train_dataset is a list"):
            trainer([])
        with self.assertRaisesRegex(ValueError, "has no model="):
            trainer(isocost.DataLoader("tcp://127.0.0.1:1"))
        with self.assertRaisesRegex(ValueError, "leave endless= out"):
            trainer(loader(endless=True))
        with self.assertRaisesRegex(ValueError, "model_type is qwen2_5_vl, and the loader prepares .* is qwen2_vl"):
            trainer(loader(model=self.model("qwen2_vl")))
        model.config.image_token_id += 1
        with self.assertRaisesRegex(ValueError, r"^the model's image_token_id is \d+, and the loader .* is \d+: "):
            trainer(plain)
        model.config.image_token_id -= 1
        others = isocost.DataLoader("tcp://127.0.0.1:1", model=directory, rank=0, world_size=2)
        self.addCleanup(others.close)
        with self.assertRaisesRegex(ValueError, "^the loader is for 2 ranks, and the Trainer has 1 process"):
            trainer(others)
        for held_out in ([plain], (plain, None)):
            with self.assertRaisesRegex(TypeError, "^eval_dataset is a (list|tuple) with an isocost.DataLoader: give "
                                                   "the loader itself, or a dict"):
                trainer(plain, eval_dataset=held_out)
            with self.assertRaisesRegex(TypeError, "^eval_dataset is a (list|tuple)"):
                trainer(plain).evaluate(held_out)
        with self.assertRaisesRegex(ValueError, "^eval_dataset: .* ends after 1 epoch,"):
            trainer(plain, eval_dataset={"held out": loader(epochs=1)})
        with self.assertRaisesRegex(ValueError, "^max_steps = 20 needs 3.333 epochs of 6 steps, and the node has 2"):
            trainer(loader(epochs=2), {"max_steps": 20}).train()
        with self.assertRaisesRegex(ValueError, "^predict: "):
            trainer(plain).predict(plain)
        for wrong, train, held_out in (("per_device_train_batch_size", plain, None),
                                       ("per_device_eval_batch_size", None, plain)):
            with self.assertLogs("isocost", "WARNING") as logs:
                trainer(train, {wrong: 3}, eval_dataset=held_out)
            self.assertIn(f"{wrong} = 3 has no effect", logs.output[-1])

    def test_a_processing_class_is_the_one_of_the_loaders_directory(self):
        from tokenizers import normalizers

        from isocost.integrations.transformers import Trainer

        directory = self.model("qwen2_5_vl")
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)
        settings = transformers.TrainingArguments(self.directory / "processors", report_to=[], use_cpu=True)

        def processor(**options):
            return transformers.AutoProcessor.from_pretrained(directory, **options)

        def changed(of, **attributes):
            for name, value in attributes.items():
                setattr(of, name, value)
            return of

        def with_more_tokens():
            found = processor().tokenizer
            found.add_tokens(["<more>"])
            return found

        def that_lowers():
            found = processor().tokenizer
            found.backend_tokenizer.normalizer = normalizers.Lowercase()
            return found

        other = processor()
        other.image_processor.size = {"shortest_edge": 3136, "longest_edge": 50176}
        own_template, frames = processor(), processor()
        own_template.chat_template = own_template.chat_template.replace("helpful", "witty")
        frames.video_processor.max_frames = 16
        with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8,
                                microbatches=2) as loader:
            for same in (processor(), processor().tokenizer, processor().image_processor,
                         changed(processor().tokenizer, pad_token="<|im_end|>", padding_side="left")):
                Trainer(model, settings, train_dataset=loader, eval_dataset=loader, processing_class=same)
            for given, of in (
                    (other, r"image_processor.size of this Qwen2_5_VLProcessor is .*50176.*, where it is .*12845056"),
                    (frames, "video_processor.max_frames of this Qwen2_5_VLProcessor is 16, .*, where it is 768"),
                    (processor(patch_size=16), "image_processor.patch_size of .* is 16, .*, where it is 14"),
                    (own_template, "chat_template from character [0-9]+ of .* is .witty (?s:.*) where it is .helpful "),
                    (with_more_tokens(), "the vocabulary of .* is one of ([0-9]+) tokens, .* is one of [0-9]+ tokens"),
                    (that_lowers(), "normalizer of .* is {'type': 'Lowercase'}, .*, where it is {'type': 'NFC'}")):
                for data in ({"train_dataset": loader}, {"eval_dataset": {"held out": loader}}):
                    with self.subTest(of=of), self.assertRaisesRegex(
                            ValueError, f"^processing_class: {of}.*{directory}.*save_pretrained"):
                        Trainer(model, settings, processing_class=given, **data)

    def test_a_processing_class_has_the_loaders_size_of_pictures(self):
        from isocost.integrations.transformers import Trainer

        directory = self.model("qwen2_5_vl")
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)
        settings = transformers.TrainingArguments(self.directory / "sizes", report_to=[], use_cpu=True)
        own, resized = (transformers.AutoProcessor.from_pretrained(directory) for _i in range(2))
        resized.image_processor = type(own.image_processor).from_pretrained(directory, max_pixels=50176)
        with isocost.DataLoader(self.directory / "train", model=directory, image_size={"max_pixels": 50176},
                                global_batch_size=8, microbatches=2) as loader:
            self.assertEqual(loader.image_size, {"max_pixels": 50176})
            for same in (resized, own.tokenizer, resized.image_processor):
                Trainer(model, settings, train_dataset=loader, processing_class=same)
            for other in (own, own.image_processor):
                with self.assertRaisesRegex(ValueError, "^processing_class: .*12845056.*, where it is .*50176.*"
                                                        "max_pixels=50176.*leave image_size= of the loader out"):
                    Trainer(model, settings, train_dataset=loader, processing_class=other)

    def test_transformers_own_trainer_is_told_of_the_integration(self):
        directory = self.model("qwen2_5_vl")
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)
        settings = transformers.TrainingArguments(self.directory / "own", report_to=[], use_cpu=True, max_steps=2)
        for limits in ({"microbatches": 2}, {"max_tokens": 600}):
            with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8, **limits) as loader:
                for use in (lambda trainer: trainer.train(), lambda trainer: trainer.evaluate()):
                    with self.assertRaisesRegex(TypeError, "isocost.integrations.transformers"):
                        use(transformers.Trainer(model, settings, train_dataset=loader, eval_dataset=loader))

    def test_what_a_node_says_of_the_model_is_said_once(self):
        directory = shutil.copytree(self.model("qwen2_5_vl"), self.directory / "said_once")
        with self.assertLogs("isocost", "WARNING") as logs:
            for _ in range(2):
                with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8) as loader:
                    len(loader)
        self.assertEqual(len([line for line in logs.output if "no model profile is given for" in line]), 1)

    def test_the_engine_of_deepspeed_clips_at_the_norm_of_the_settings(self):
        from isocost.integrations.trainer_checks import check_clipping

        for config, norm, default in (({"gradient_clipping": 0.5}, 0.5, 1.0), ({}, 1.0, 1.0), ({}, 0.0, 0.0),
                                      ({}, None, 0.0)):
            check_clipping(config, norm, default)
        clips = "clips at its default of 1.0"
        for norm, default, does in ((0.5, 1.0, clips), (0.0, 1.0, clips), (1.0, 0.0, "does not clip")):
            with self.assertRaisesRegex(ValueError, f"^max_grad_norm = {norm}: DeepSpeed's configuration has no "
                                                    f"gradient_clipping, and its engine {does}: write .*auto"):
                check_clipping({}, norm, default)

    def test_settings_that_nobody_set_are_not_named(self):
        from isocost.integrations import trainer_checks

        class Second(transformers.TrainingArguments):
            process_index = 1

        kinds = [transformers.TrainingArguments]
        if importlib.util.find_spec("trl"):
            import trl

            kinds.append(trl.SFTConfig)
        ignored = {**trainer_checks.IGNORED, **trainer_checks.IGNORED_OF_EVALUATION}
        with self.assertNoLogs("isocost", "WARNING"):
            for kind in kinds:
                trainer_checks.note_ignored(kind(self.directory / "unset", report_to=[], use_cpu=True, bf16=False),
                                            ignored)
            second = Second(self.directory / "unset", report_to=[], use_cpu=True, dataloader_num_workers=2)
            trainer_checks.note_ignored(second, ignored)  # The first process names it.

    def test_settings_are_those_of_the_frameworks(self):
        from isocost.integrations import trainer_checks

        kinds = [transformers.TrainingArguments]
        if importlib.util.find_spec("trl"):
            import trl

            kinds.append(trl.SFTConfig)
        ignored = {**trainer_checks.IGNORED, **trainer_checks.IGNORED_OF_EVALUATION}
        known = {*trainer_checks.REFUSED, *ignored, "dataloader_pin_memory"}  # The settings turn that off on CPUs.
        self.assertEqual([name for name in kinds[0].__dataclass_fields__
                          if name.startswith("dataloader_") and name not in known], [])
        for name in [*trainer_checks.REFUSED, *ignored]:
            having = [kind for kind in kinds if name in kind.__dataclass_fields__]
            if not having and len(kinds) == 1:
                continue  # a setting of trl
            self.assertTrue(having, f"{name} is a setting of no framework")
            settings = having[0](self.directory / "settings", report_to=[], use_cpu=True, bf16=False)
            setattr(settings, name, "another")
            if name in trainer_checks.REFUSED:
                with self.assertRaisesRegex(ValueError, f"^{name} = 'another': "):
                    trainer_checks.check_refused(settings)
                continue
            with self.assertLogs("isocost", "WARNING") as logs:
                trainer_checks.note_ignored(settings, ignored)
            self.assertEqual(len([line for line in logs.output if f"{name} = 'another' has no effect" in line]), 1)

    def test_a_base_of_another_version_is_an_import_error(self):
        from isocost.integrations.transformers import trainer_class

        class Renamed(transformers.Trainer):
            def training_step(self, module, inputs, num_items_in_batch=None):
                """Takes the model by another name."""

        with self.assertRaisesRegex(ImportError, r"overrides training_step\(model, inputs.*has training_step\(module, "
                                                 "inputs, .*: install the versions with which it is tested, "):
            trainer_class(Renamed)

        class Without(transformers.Trainer):
            _save_checkpoint = None

        with self.assertRaisesRegex(ImportError, r"overrides _save_checkpoint\(model, trial.*has no such method"):
            trainer_class(Without)

    def test_an_untested_version_is_told_once(self):
        from isocost.integrations import versions

        versions.note_version.cache_clear()
        self.addCleanup(versions.note_version.cache_clear)
        with unittest.mock.patch.dict(versions.TESTED, transformers="0.1"), \
                self.assertLogs("isocost", "WARNING") as logs:
            for _ in range(2):
                versions.note_version("transformers")
        self.assertEqual(len(logs.output), 1)
        self.assertIn("is tested with transformers 0.1, and this is ", logs.output[0])

    def test_the_best_model_is_loaded_by_whatever_names_it_was_saved(self):
        from isocost.integrations.transformers import Trainer

        directory = self.model("qwen2_5_vl")
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)
        best = {name: value.clone() for name, value in model.state_dict().items()}
        settings = transformers.TrainingArguments(self.directory / "best", report_to=[], use_cpu=True)
        with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8,
                                microbatches=2) as loader:
            trainer = Trainer(model, settings, train_dataset=loader)
            trainer.save_model(self.directory / "best" / "checkpoint-2")
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1)
            trainer.state.best_model_checkpoint = os.fspath(self.directory / "best" / "checkpoint-2")
            trainer._load_best_model()  # noqa: SLF001 (the Trainer calls it at the end of a run)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, best[name]), name)

    def test_a_checkpoint_without_the_loaders_state_is_refused(self):
        from isocost.integrations.transformers import Trainer

        directory = self.model("qwen2_5_vl")
        checkpoint = self.directory / "foreign" / "checkpoint-4"
        checkpoint.mkdir(parents=True)
        (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": 4}))
        model = transformers.AutoModelForImageTextToText.from_pretrained(directory)
        settings = transformers.TrainingArguments(self.directory / "foreign", report_to=[], use_cpu=True)
        with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8,
                                microbatches=2) as loader:
            trainer = Trainer(model, settings, train_dataset=loader)
            with self.assertRaisesRegex(ValueError, "checkpoint-4 has no isocost.json"):
                trainer.train(resume_from_checkpoint=True)
            (checkpoint / "isocost.json").write_text(json.dumps({"global_step": 3, "loader": loader.state_dict()}))
            with self.assertRaisesRegex(ValueError, "is of step 4, and its isocost.json of step 3"):
                trainer.train(resume_from_checkpoint=os.fspath(checkpoint))
            with isocost.DataLoader(self.directory / "train", model=directory, global_batch_size=8, microbatches=2,
                                    seed=1) as other:
                len(other)  # It learns from the node what its state belongs to.
                state = {"global_step": 4, "loader": other.state_dict()}
            (checkpoint / "isocost.json").write_text(json.dumps(state))
            with self.assertRaisesRegex(ValueError, "resumes a state of other data or another order"):
                trainer.train(resume_from_checkpoint=os.fspath(checkpoint))
            trainer.state.global_step = 4
            with unittest.mock.patch.object(transformers.Trainer, "_save_checkpoint", side_effect=KeyboardInterrupt), \
                    self.assertRaises(KeyboardInterrupt):
                trainer._save_checkpoint(model, None)  # noqa: SLF001 (over one that was whole)
            with self.assertRaisesRegex(ValueError, "checkpoint-4 has no trainer_state.json: .* or delete it"):
                trainer.train(resume_from_checkpoint=True)
            (checkpoint / "trainer_state.json").write_text(json.dumps({"global_step": 4}))
            (checkpoint / "isocost.json").write_text("{")
            with self.assertRaisesRegex(ValueError, "isocost.json is damaged"):
                trainer.train(resume_from_checkpoint=True)


if __name__ == "__main__":
    main()
