"""Layers that are measured again in a layout with stages: isocost.profile_layers, and a pipeline in real processes."""

import json
import pathlib
import statistics
import subprocess
import tempfile
import unittest

import torch
import torch.utils.checkpoint

import isocost
from isocost.base.modules import MODULES
from support import PROGRAM, TIMEOUT, ShardTest, main, png, torchrun

JOB = pathlib.Path(__file__).parent / "reprofile_pipeline.py"
RANKS = pathlib.Path(__file__).parent / "reprofile_ranks.py"
WIDTH = 16


def layer(**trained):
    return torch.nn.Linear(WIDTH, WIDTH)


def layers(module, lengths=(8, 16), most_units=32, **more):
    return isocost.ProfiledLayers(module, WIDTH, lengths, most_units, **more)


class ProfileLayers(unittest.TestCase):
    def test_all_loads_are_measured_and_gradients_stay(self):
        module = layer()
        module.weight.grad = torch.ones_like(module.weight)
        state = torch.random.get_rng_state()
        seen = []

        def run(activations, lengths):
            seen.append((tuple(activations.shape), sum(lengths)))
            return module(activations)

        part = isocost.profile_layers(0.1, llm=layers(module, run=run))
        self.assertEqual((part["kind"], part["version"], part["unit"]), ("layer profile", 1, "seconds"))
        points = part["modules"]["llm"]["points"]
        lengths = [point["units"] // point["sequences"] for point in points]
        self.assertEqual((min(lengths), max(lengths), max(point["units"] for point in points)), (8, 16, 32))
        self.assertTrue(all(point["forward_s"] > 0 and point["backward_s"] > 0 for point in points))
        self.assertTrue(all(shape == (1, units, WIDTH) for shape, units in seen))
        self.assertTrue(torch.equal(module.weight.grad, torch.ones_like(module.weight)))
        self.assertIsNone(module.bias.grad)
        self.assertTrue(torch.equal(torch.random.get_rng_state(), state))

    def test_hooks_of_gradients_do_not_run(self):
        module, reduced = layer(), []
        module.weight.register_hook(reduced.append)  # DistributedDataParallel waits behind it
        accumulator = module.weight.expand_as(module.weight).grad_fn.next_functions[0][0]
        accumulator.register_hook(lambda *_: reduced.append("reduced"))
        isocost.profile_layers(0.1, llm=layers(module))
        self.assertNotIn("reduced", reduced)

    def test_what_is_frozen_has_no_backward_pass_unless_gradients_pass_it(self):
        frozen = layer().requires_grad_(False)
        part = isocost.profile_layers(0.1, vision=layers(frozen), llm=layers(frozen))
        backward = {name: {point["backward_s"] > 0 for point in module["points"]}
                    for name, module in part["modules"].items()}
        self.assertEqual(backward, {"vision": {False}, "llm": {True}})

    def test_several_layers_are_counted(self):
        part = isocost.profile_layers(0.1, llm=layers(torch.nn.Sequential(layer(), layer()), layers=2))
        self.assertEqual(part["modules"]["llm"]["layers"], 2)

    def test_wrong_arguments_are_named(self):
        for error, pattern, given in (
                (ValueError, "name a module", {}),
                (ValueError, "there is no module 'text'", {"text": layers(layer())}),
                (TypeError, "llm is a Linear; give isocost.ProfiledLayers", {"llm": layer()}),
                (ValueError, "llm: the module has no parameters", {"llm": layers(torch.nn.Tanh())}),
                (ValueError, "llm: layers = 0: must be a whole number", {"llm": layers(layer(), layers=0)}),
                (ValueError, "llm.*most_units", {"llm": layers(layer(), most_units=4)}),
                (TypeError, "llm: lengths are .*give whole numbers", {"llm": layers(layer(), lengths=(8.5, 16))}),
                (ValueError, "budget_s is 0", {"budget_s": 0, "llm": layers(layer())})):
            with self.assertRaisesRegex(error, pattern):
                isocost.profile_layers(**given)

    def test_layers_whose_backward_pass_cannot_be_measured_are_refused(self):
        module = layer()

        def checkpointed(activations, _lengths):
            return torch.utils.checkpoint.checkpoint(module, activations, use_reentrant=True)

        with self.assertRaisesRegex(ValueError, "llm: a reentrant checkpoint .*use_reentrant=False"):
            isocost.profile_layers(0.1, llm=layers(module, run=checkpointed))

        def with_other_tensors(activations, _lengths):  # as fully_shard does
            return torch.nn.functional.linear(activations, module.weight.detach().requires_grad_())

        with self.assertRaisesRegex(ValueError, "llm: no weight of these layers gets a gradient.*not sharded"):
            isocost.profile_layers(0.1, llm=layers(module, run=with_other_tensors))


def architecture(layers, width=96):
    return {"name": "small", "layers": layers, "width": width, "heads": 4, "key_value_width": width, "mlp": 4 * width,
            "gated": False, "embedding_parameters": 0, "head_flop_per_unit": 0}


def stated(per_microbatch=1e-3, per_unit=2e-5):
    """A profile of the small model, whose seconds are about right."""
    nothing = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}
    modules = {name: dict(nothing) for name in MODULES}
    modules["vision"].update(per_unit=1e-5, architecture=architecture(2))
    modules["llm"].update(per_microbatch=per_microbatch, per_unit=per_unit, architecture=architecture(4))
    return {"version": 1, "unit": "seconds", "modules": modules}


class Pipeline(ShardTest):
    @classmethod
    def setUpClass(cls):
        """Pictures with captions alone, so that every microbatch has work for the encoder."""
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-python-"))
        files = cls.directory / "files"
        files.mkdir()
        for i in range(36):
            (files / f"s{i:04}.txt").write_text(f"sample {i} " + "x" * (20 + i * 7 % 60))
            (files / f"s{i:04}.png").write_bytes(png(140 + 28 * (i % 4), 140 + 28 * (i % 3), i))
        cls.shards = cls.directory / "shards"
        subprocess.run([PROGRAM, "make-shards", files, cls.shards], check=True, capture_output=True, timeout=TIMEOUT)

    def train(self, **settings):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        both = {"tensor": 1, "pipeline": 2, "data": 1}
        (folder / "layout.json").write_text(json.dumps(
            {"version": 1, "encoder_place": "llm", "encoder": {**both, "layers": [2, 0]},
             "llm": {**both, "layers": [1, 3]}, "microbatches": 4, "chunks": 1, "schedule": "1f1b"}))
        (folder / "profile.json").write_text(json.dumps(stated()))
        settings = {"thaw": 60, "steps": 600, "after": 20, **settings}
        run = torchrun([JOB, self.shards, folder / "layout.json", folder / "profile.json", json.dumps(settings)])
        ranks = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        return sorted(ranks, key=lambda rank: rank["rank"]), run.stderr

    def test_a_thawed_encoder_is_measured_by_all_stages_and_planned_with(self):
        ranks, log = self.train()
        self.assertIn("model profile of the layers of 2 receivers adopted", log)
        self.assertEqual(ranks[0]["at"], ranks[1]["at"])
        self.assertGreaterEqual(ranks[0]["node"]["reprofiles"], 1)
        self.assertTrue(all(rank["gradients_stay"] for rank in ranks))
        self.assertEqual([set(part) for rank in ranks for part in rank["measured"][-1:]], [{"vision", "llm"}, {"llm"}])
        last = ranks[0]["measured"][-1]["vision"]["points"]
        self.assertTrue(all(point["backward_s"] > 0 for point in last))
        ratio = statistics.median(error["vision"] for error in ranks[0]["errors"] if "vision" in error)
        self.assertGreater(ratio, 0.6)
        self.assertLess(ratio, 1.7)

    def test_a_stage_that_fails_keeps_the_profile_and_training_goes_on(self):
        ranks, log = self.train(fails=1)
        self.assertEqual([rank["steps"] - rank["at"][-1] >= 20 for rank in ranks], [True, True])
        self.assertEqual(ranks[0]["node"]["reprofiles"], 0)
        self.assertIn("model profile: the trainer at llm, data 0, stage 1, tensor 0: RuntimeError: the device is "
                      "busy; the node keeps the present profile", log)

    def test_stages_of_other_lengths_keep_the_profile(self):
        ranks, log = self.train(lengths=[[128, 128], [96, 96]])
        self.assertEqual(ranks[0]["node"]["reprofiles"], 0)
        self.assertRegex(log, r"measured llm with sequences of 128 to 128 in .*, and the trainer at llm, data 0, stage "
                              r"1, tensor 0 with sequences of 96 to 96 .*: give all stages the same loads; the node")


class Ranks(ShardTest):
    """Ranks of one tensor group, which share a receiver, and ranks that were given other arguments."""

    def run_ranks(self, pipeline=1, tensor=2, **settings):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        both = {"tensor": tensor, "pipeline": pipeline, "data": 1}
        (folder / "layout.json").write_text(json.dumps(
            {"version": 1, "encoder_place": "llm", "encoder": both, "llm": both, "microbatches": 2, "chunks": 1,
             "schedule": "1f1b"}))
        (folder / "profile.json").write_text(json.dumps(stated(per_microbatch=0, per_unit=1e-6)))
        run = torchrun([RANKS, self.shards, folder / "layout.json", folder / "profile.json", json.dumps(settings)])
        nodes = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{\"version")]
        return nodes, run.stdout + run.stderr

    def test_all_ranks_of_a_tensor_group_measure_and_one_answers(self):
        [node], log = self.run_ranks()
        self.assertEqual((node["reprofiles"], node["reprofiles_kept"]), (1, 0), log)

    def test_a_failure_of_a_rank_that_does_not_answer_is_told(self):
        [node], log = self.run_ranks(fails=1)
        self.assertEqual((node["reprofiles"], node["reprofiles_kept"]), (0, 1), log)
        self.assertIn("model profile: rank 0: RuntimeError: the device is busy; the node keeps", log)

    def test_without_reprofile_at_one_of_them_nobody_measures(self):
        [node], log = self.run_ranks(without=1)
        self.assertEqual((node["reprofiles"], node["reprofiles_kept"]), (0, 1), log)
        self.assertIn("model profile: rank 0: not all of its ranks have reprofile=; the node keeps", log)

    def test_stages_that_were_given_other_functions_are_refused(self):
        _nodes, log = self.run_ranks(pipeline=2, tensor=1, without=1, opens_only=True)
        self.assertRegex(log, r"1 reprofile= makes reprofile 'off' at rank 1, and rank 0, .* has 'on': give all ranks "
                              "the same")


if __name__ == "__main__":
    main()
