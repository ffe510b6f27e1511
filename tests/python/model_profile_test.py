"""Model profiles of models in directories: what is built, how large it is, how it is run, and what is written."""

import functools
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

os.environ.update(HF_HUB_OFFLINE="1", KINETO_LOG_LEVEL="99")

from isocost.base.modules import tensors_of  # noqa: E402
from isocost.model_profile import Settings, profile_directory  # noqa: E402
from isocost.profiling.architecture import architecture, layer_parameters  # noqa: E402
from isocost.profiling.fewer_layers import extrapolate, layers_that_fit  # noqa: E402
from isocost.profiling.largest_load import Trial, largest_load  # noqa: E402
from isocost.profiling.random_loads import module_loads, patch_grid  # noqa: E402
from isocost.profiling.skeleton import Skeleton, first_layers, module_attributes, unique_parameters  # noqa: E402
from support import PROGRAM, TIMEOUT, main, png  # noqa: E402

NEEDED = ("torch", "transformers", "tokenizers")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import torch
    import transformers

    import model_directories

OLD_FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "llava_siglip", "llava_onevision", "internvl",
                "qwen2_audio", "whisper")
MIXED = ("qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")  # layers of experts or linear attention
FAMILIES = OLD_FAMILIES + (() if MISSING else tuple(name for name in MIXED if model_directories.is_known(name)))
MOST = {"vision": 576, "audio": 3000, "llm": 128}


def make_skeleton(directory, family, **text):
    """Returns the skeleton of a tiny model, whose language model has other settings."""
    made = model_directories.make(pathlib.Path(directory) / family, family)
    file = made / "config.json"
    config = json.loads(file.read_text())
    config.get("text_config", config).update(text)
    if "tie_word_embeddings" in text:
        config["tie_word_embeddings"] = text["tie_word_embeddings"]
    file.write_text(json.dumps(config))
    return Skeleton(str(made))


class Directories(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="isocost-profile-")
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)


class Extrapolation(unittest.TestCase):
    @staticmethod
    def document(layers, cut):
        """A module with 2 ms outside its layers, and layers that take 1 ms and 1 MB for each 100 units."""
        def point(length, sequences, ran):
            units = length * sequences
            seconds = 2e-3 + ran * 1e-5 * units
            return {"sequences": sequences, "units": units, "units_squared": units * length, "forward_s": seconds / 3,
                    "backward_s": 2 * seconds / 3, "spread": 0.01, "peak_bytes": 10000 * ran * units}

        loads = [(10, 1), (10, 20), (200, 1), (45, 4)]
        return {"points": [point(*load, layers) for load in loads], "out_of_memory": {},
                "cuts": [{"tensor": 1, "layers": cut, "points": [point(10, 20, cut), point(200, 1, cut)]}]}, point

    def test_layers_cost_alike_and_the_rest_costs_once(self):
        measured, point = self.document(4, 2)
        whole = extrapolate(measured, 4, 40)
        for found, (length, sequences) in zip(whole["points"][1:], [(10, 20), (200, 1), (45, 4)]):
            wanted, units = point(length, sequences, 40), length * sequences
            self.assertEqual(found["units"], units)
            for key in ("forward_s", "backward_s"):  # Other loads take the share of the largest one of their length.
                self.assertAlmostEqual(found[key] / wanted[key], 1, delta=1e-9 if units == 200 else 0.03, msg=key)
            self.assertAlmostEqual(found["peak_bytes"] / wanted["peak_bytes"], 1, 9)

    def test_what_ran_becomes_a_cut(self):
        measured, _point = self.document(4, 2)
        whole = extrapolate(measured, 4, 40)
        self.assertEqual([cut["layers"] for cut in whole["cuts"]], [2, 4])
        self.assertEqual(whole["cuts"][1]["points"], measured["points"])
        self.assertNotIn("out_of_memory", whole)

    def test_noise_makes_no_layer_free_and_none_dearer_than_its_share(self):
        for factor in (0.1, 3.0):
            measured, _point = self.document(4, 2)
            for point in measured["cuts"][0]["points"]:
                point["forward_s"] *= factor
                point["backward_s"] *= factor
            whole = extrapolate(measured, 4, 40)
            for before, after in zip(measured["points"], whole["points"]):
                self.assertGreaterEqual(after["forward_s"], before["forward_s"])
                self.assertLessEqual(after["forward_s"], 10 * before["forward_s"] * (1 + 1e-9))

    def test_points_that_contradict_others_are_left_out(self):
        measured, _point = self.document(4, 2)
        small, *others = measured["points"]
        slow = {**small, "forward_s": 1.0}
        whole = extrapolate({**measured, "points": [slow, *others]}, 4, 40)
        self.assertEqual([point["units"] for point in whole["points"]], [point["units"] for point in others])

    def test_as_many_layers_as_leave_half_of_the_memory(self):
        def bytes_of(layers):
            return 100 + 10 * layers

        self.assertEqual(layers_that_fit(40, 1, bytes_of, 1000), 40)
        self.assertEqual(layers_that_fit(40, 1, bytes_of, 999), 38)
        self.assertEqual(layers_that_fit(40, 4, bytes_of, 999), 32)
        self.assertEqual(layers_that_fit(40, 1, bytes_of, 240), 2)
        self.assertIsNone(layers_that_fit(40, 1, bytes_of, 239))


class LargestLoad(unittest.TestCase):
    def test_doubles_until_a_run_would_take_too_long(self):
        tried = []

        def run(units):
            tried.append(units)
            return Trial(1e-3 * units, 0)

        self.assertEqual(largest_load(run, 100, 10**6, 1.0, lambda: 1), 800)
        self.assertEqual(tried, [100, 200, 400, 800])

    def test_stops_before_memory_runs_out(self):
        self.assertEqual(largest_load(lambda units: Trial(0, units), 100, 10**6, 1.0, lambda: 4000), 1600)

    def test_attention_makes_runs_grow_faster(self):
        self.assertEqual(largest_load(lambda units: Trial(1e-6 * units**2, 0), 100, 10**6, 1.0, lambda: 1), 800)

    def test_stays_within_its_bounds(self):
        self.assertEqual(largest_load(lambda units: Trial(0, 0), 100, 799, 1.0, lambda: 1), 400)
        self.assertEqual(largest_load(lambda units: Trial(9, 0), 100, 799, 1.0, lambda: 1), 100)


class Grids(unittest.TestCase):
    def test_have_exactly_the_patches_and_even_sides(self):
        for patches in range(48, 48 * 400, 48):
            rows, columns = patch_grid(patches)
            self.assertEqual((rows * columns, rows % 2, columns % 2), (patches, 0, 0))

    def test_are_like_pictures(self):
        self.assertEqual(patch_grid(48), (6, 8))
        self.assertEqual(patch_grid(48 * 64), (48, 64))


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Sizes(Directories):
    def test_parameters_are_those_of_the_model(self):
        for family in FAMILIES:
            skeleton = make_skeleton(self.directory, family)
            total = sum(parameter.numel() for parameter in skeleton.model.parameters())
            self.assertEqual(skeleton.parameters(skeleton.encoder) + skeleton.parameters("llm"), total, family)
            self.assertTrue(all(parameter.is_meta for parameter in skeleton.model.parameters()))
            for module in (skeleton.encoder, "llm"):
                its = architecture(skeleton, module)
                self.assertEqual(its.layers * layer_parameters(its) + its.embedding_parameters,
                                 skeleton.parameters(module), (family, module))

    def test_layers_of_other_matrices_have_an_mlp_that_holds_their_parameters(self):
        for family in FAMILIES[len(OLD_FAMILIES):]:
            skeleton = make_skeleton(self.directory, family)
            its = architecture(skeleton, "llm")
            own = sum(each.numel() for each in skeleton.layers("llm").parameters())
            self.assertEqual(its.layers, 4 if "qwen3_5" in family else 2)
            self.assertEqual(its.experts, 4 if "moe" in family else 0)
            self.assertLess(abs(its.layers * layer_parameters(its) - own), its.layers * 3 * its.width, family)

    def test_dimensions_are_those_of_the_layers(self):
        for family in OLD_FAMILIES:
            shared = {} if family == "whisper" else {"num_key_value_heads": 1}
            skeleton = make_skeleton(self.directory, family, **shared)
            for module, key_value_width in ((skeleton.encoder, 64), ("llm", 16 if shared else 64)):
                its = architecture(skeleton, module)
                layers = skeleton.layers(module)
                matrices = [own for name, own in layers[0].named_parameters()
                            if own.dim() == 2 and not name.startswith("encoder_attn")]
                self.assertEqual(layer_parameters(its), sum(own.numel() for own in matrices), (family, module))
                self.assertEqual((its.layers, its.width, its.heads, its.key_value_width, its.mlp),
                                 (len(layers), 64, 4, key_value_width, 128), (family, module))

    def test_tied_embeddings_count_once(self):
        apart = make_skeleton(self.directory / "apart", "qwen2_5_vl")
        tied = make_skeleton(self.directory / "tied", "qwen2_5_vl", tie_word_embeddings=True)
        head = apart.model.get_output_embeddings().weight.numel()
        self.assertEqual(apart.parameters("llm") - tied.parameters("llm"), head)
        for skeleton in (apart, tied):
            self.assertEqual(architecture(skeleton, "llm").head_flop_per_unit, 2 * head)
        built = tied.build("llm", torch.device("cpu"), torch.float32)
        self.assertIs(built.get_output_embeddings().weight, built.get_input_embeddings().weight)

    def test_the_projector_is_the_encoders_head(self):
        # A projector's two matrices, for a patch: Qwen's and InternVL's take four patches at once. Qwen3-VL has another
        # projector for an inner layer. Qwen2-Audio's has one matrix, and takes two positions.
        merger = 256 * 256 + 256 * 64
        for family, weights, units in (
                ("qwen2_5_vl", merger, 4), ("qwen3_vl", 2 * merger, 4), ("llava", 2 * 64 * 64, 1),
                ("llava_onevision", 2 * 64 * 64, 1), ("internvl", 256 * 64 + 64 * 64, 4), ("qwen2_audio", 64 * 64, 2),
                ("whisper", 0, 1)):
            skeleton = make_skeleton(self.directory, family)
            self.assertEqual(architecture(skeleton, skeleton.encoder).head_flop_per_unit, 2 * weights // units, family)


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Modules(Directories):
    def build(self, family, module, **how):
        skeleton = make_skeleton(self.directory, family)
        return skeleton, skeleton.build(module, torch.device("cpu"), torch.float32, **how)

    def test_one_module_has_memory(self):
        for family in FAMILIES:
            encoder = make_skeleton(self.directory, family).encoder
            for module, other in ((encoder, "llm"), ("llm", encoder)):
                _skeleton, model = self.build(family, module)
                self.assertFalse(any(own.is_meta for own in unique_parameters(model, module)))
                modules = [attribute.get() for attribute in module_attributes(model, module)
                           if isinstance(attribute.get(), torch.nn.Module)]
                self.assertFalse(any(own.is_meta for each in modules for own in each.buffers()))
                self.assertTrue(all(own.is_meta for own in unique_parameters(model, other)))

    def test_the_encoder_makes_the_vectors_of_the_models_tokens(self):
        for family, lengths, vectors in (("qwen2_vl", [48, 96], 36), ("qwen2_5_vl", [480], 120),
                                         ("qwen3_vl", [288, 96], 2 * 96),  # also those of an inner layer
                                         ("llava", [64] * 3, 3 * 64), ("llava_siglip", [64] * 2, 2 * 36),
                                         # A line break after each, and after the rows of a picture of 2 x 2 tiles.
                                         ("llava_onevision", [64], 37), ("llava_onevision", [64] * 5, 36 + 12 * 13),
                                         ("llava_onevision", [64] * 6, 6 * 37),
                                         ("llava_onevision", [64] * 7, 36 + 12 * 13 + 2 * 37),
                                         ("internvl", [16] * 5, 5 * 4),
                                         ("qwen2_audio", [1500] * 2, 2 * 750), ("whisper", [1500] * 2, 2 * 1500)):
            encoder = make_skeleton(self.directory, family).encoder
            skeleton, model = self.build(family, encoder)
            loads = module_loads(skeleton)[encoder]
            found = tensors_of(loads.forward(model, lengths, torch.device("cpu"))())
            found = torch.cat([each.reshape(-1, each.shape[-1]) for each in found])
            self.assertEqual(found.shape, (vectors, 64), family)
            self.assertTrue(bool(found.isfinite().all()), family)
            self.assertTrue(found.requires_grad, family)

    def test_lengths_are_those_that_the_recipe_plans(self):
        skeletons = {family: make_skeleton(self.directory, family) for family in FAMILIES}
        limits = {family: module_loads(its)[its.encoder].limits for family, its in skeletons.items()}
        self.assertEqual(limits["llava"][:3], (64, 64, 64))
        self.assertEqual(limits["llava_siglip"][:3], (64, 64, 64))  # of 90 pixels: 8 x 8 patches with black ones
        self.assertEqual(limits["llava_onevision"][:3], (64, 64, 64))
        self.assertEqual(limits["internvl"][:3], (16, 16, 16))
        self.assertEqual(limits["qwen2_audio"][:3], (1500, 1500, 1500))
        self.assertEqual(limits["whisper"][:3], (1500, 1500, 1500))
        self.assertEqual(limits["qwen3_vl"][:3], (288, 65520, 48))  # of 65,536 pixels, in patches of 16
        self.assertEqual(module_loads(skeletons["whisper"])["llm"].limits.longest, 65)
        shortest, longest, multiple = limits["qwen2_5_vl"][:3]
        self.assertEqual((shortest, multiple), (48, 48))
        self.assertLess(65536 - longest, multiple)

    def test_packed_samples_do_not_see_each_other(self):
        for family in ("qwen2_5_vl", "qwen3_vl", "llava", "llava_onevision", "internvl"):
            skeleton, model = self.build(family, "llm")
            lengths = [5, 17, 9]
            arguments = module_loads(skeleton)["llm"].arguments(lengths, torch.device("cpu"))
            alone = 0.0
            for ids in arguments["input_ids"][0].split(lengths):
                loss = model(input_ids=ids[None], labels=ids[None], use_cache=False,
                             num_items_in_batch=sum(lengths)).loss
                alone += loss.item()
            # A sample's last token predicts the first one of the next sample, which is not a label there.
            arguments["labels"] = arguments["labels"].clone()
            arguments["labels"][0, [5, 22]] = -100
            self.assertAlmostEqual(model(**arguments).loss.item() / alone, 1, 5, family)

    def test_rows_do_not_see_their_padding(self):
        for family in ("qwen3_5", "qwen3_5_moe"):
            if not model_directories.is_known(family):
                self.skipTest(f"transformers {transformers.__version__} has no {family}: ./run test --torch2 has it")
            skeleton, model = self.build(family, "llm")
            lengths = [5, 17, 9]
            arguments = module_loads(skeleton)["llm"].arguments(lengths, torch.device("cpu"))
            self.assertEqual(arguments["position_ids"].shape, (4, 3, 17))
            alone = 0.0
            for ids, length in zip(arguments["input_ids"], lengths):
                loss = model(input_ids=ids[None, :length], labels=ids[None, :length], use_cache=False,
                             num_items_in_batch=sum(lengths)).loss
                alone += loss.item()
            self.assertAlmostEqual(model(**arguments).loss.item() / alone, 1, 5, family)

    def test_inner_vectors_of_pictures_are_added_in_the_first_layers(self):
        skeleton, model = self.build("qwen3_vl", "llm")
        loads = module_loads(skeleton)["llm"]
        torch.manual_seed(0)
        arguments = loads.arguments([20, 31], torch.device("cpu"))
        for vectors, same in ((torch.zeros, True), (torch.ones, False)):
            torch.manual_seed(0)  # the same ids
            with unittest.mock.patch("torch.randn", vectors):
                loss = loads.forward(model, [20, 31], torch.device("cpu"))()
            self.assertEqual(torch.allclose(loss, model(**arguments).loss, rtol=1e-5), same)

    def test_a_loss_without_counts_is_that_of_the_packed_samples(self):
        skeleton, model = self.build("qwen2_audio", "llm")
        loads = module_loads(skeleton)["llm"]
        torch.manual_seed(0)
        ids = loads.arguments([40], torch.device("cpu"))["input_ids"]
        torch.manual_seed(0)
        loss = loads.forward(model, [40], torch.device("cpu"))()
        self.assertAlmostEqual(loss.item() / (model(input_ids=ids, labels=ids).loss.item() * 39 / 40), 1, 5)

    def test_a_decoder_reads_its_rows_and_what_the_encoder_heard(self):
        skeleton, model = self.build("whisper", "llm")
        seen = []
        with unittest.mock.patch.object(model, "forward", side_effect=lambda **given: seen.append(given) or
                                        type(model).forward(model, **given)):
            loss = module_loads(skeleton)["llm"].forward(model, [17, 60, 9], torch.device("cpu"))()
        (given,) = seen
        self.assertEqual((given["labels"] != -100).sum(dim=1).tolist(), [16, 59, 8])
        (heard,) = given["encoder_outputs"]
        loss.backward()
        self.assertEqual(heard.grad.shape, (3, 1500, 64))
        self.assertGreater(heard.grad.abs().max().item(), 0)

    def test_a_frozen_encoder_has_no_gradients(self):
        for family, module in (("internvl", "vision"), ("llava_onevision", "vision"), ("qwen2_audio", "audio")):
            _skeleton, model = self.build(family, module, frozen=True)
            self.assertFalse(any(own.requires_grad for own in unique_parameters(model, module)), family)

    def test_fewer_layers_run_for_a_while(self):
        for family in FAMILIES:
            for module, lengths in ((make_skeleton(self.directory, family).encoder, None), ("llm", [20])):
                skeleton, model = self.build(family, module)
                loads = module_loads(skeleton)[module]
                forward = loads.forward(model, lengths or [loads.limits.shortest], torch.device("cpu"))
                before = flat(forward())
                with first_layers(model, module, 1):
                    self.assertFalse(torch.equal(flat(forward()), before), (family, module))
                self.assertTrue(torch.allclose(flat(forward()), before), (family, module))

    def test_fewer_layers_are_built(self):
        for family in FAMILIES:
            skeleton = make_skeleton(self.directory, family)
            for module in (skeleton.encoder, "llm"):
                fewer = skeleton.with_layers(module, 1)
                has_three = family.startswith(("llava", "whisper")) and module != "llm"
                has_four = family.startswith("qwen3_5") and module == "llm"
                self.assertEqual((len(fewer.layers(module)), len(skeleton.layers(module))),
                                 (1, 3 if has_three else 4 if has_four else 2))
                loads = module_loads(fewer)[module]
                model = fewer.build(module, torch.device("cpu"), torch.float32)
                self.assertTrue(bool(flat(loads.forward(model, [loads.limits.shortest], torch.device("cpu"))())
                                     .isfinite().all()))

    def test_a_part_of_the_layers_has_linear_attention_in_proportion(self):
        periods = {family: make_skeleton(self.directory, family).period("llm") for family in FAMILIES}
        self.assertEqual({family: period for family, period in periods.items() if period != 1},
                         {family: 4 for family in FAMILIES if "qwen3_5" in family})

    def test_a_part_of_the_layers_has_full_attention_in_proportion(self):
        skeleton = make_skeleton(self.directory, "qwen2_5_vl")
        for depth, full, period in ((32, [7, 15, 23, 31], 8), (32, [7, 15, 23, 30], 32), (4, [0, 1, 2, 3], 1),
                                    (4, [], 1)):
            skeleton.config.vision_config.update({"depth": depth, "fullatt_block_indexes": full})
            whole = skeleton.with_layers("vision", depth)
            self.assertEqual(whole.period("vision"), period)
        skeleton.config.vision_config.update({"depth": 32, "fullatt_block_indexes": [7, 15, 23, 31]})
        self.assertEqual(skeleton.with_layers("vision", 16).config.vision_config.fullatt_block_indexes, [7, 15])


    def test_fewer_layers_have_the_projectors_of_theirs(self):
        skeleton = make_skeleton(self.directory, "qwen3_vl")
        skeleton.config.vision_config.update({"depth": 27, "deepstack_visual_indexes": [8, 16, 24]})
        fewer = skeleton.with_layers("vision", 18)
        self.assertEqual(fewer.config.vision_config.deepstack_visual_indexes, [8, 16])
        self.assertEqual((len(fewer.layers("vision")), len(skeleton.with_layers("vision", 27).layers("vision"))),
                         (18, 27))


def flat(outputs):
    return torch.cat([each.reshape(-1) for each in tensors_of(outputs)])


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Profiles(Directories):
    def profile(self, skeleton, **more):
        self.output = self.directory / "profile.json"
        most = {module: MOST[module] for module in (skeleton.encoder, "llm")}
        return profile_directory(Settings(skeleton.directory, str(self.output), 1e-3, device="cpu", most_units=most,
                                          **more))

    def predict(self, *arguments):
        done = subprocess.run([PROGRAM, "predict", "--profile", self.output, "--json", *arguments], text=True,
                              capture_output=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["modules"]

    def test_the_program_reads_it(self):
        for family in FAMILIES:
            skeleton = make_skeleton(self.directory, family)
            outcome = self.profile(skeleton)
            length = module_loads(skeleton)[skeleton.encoder].limits.shortest
            predicted = self.predict(f"--{skeleton.encoder}", f"{length}x2", "--llm", "60")
            for module in (skeleton.encoder, "llm"):
                own = predicted[module]
                self.assertIn(own["origin"], ("measured", "interpolated"), (family, module))
                self.assertGreater(own["seconds"], 0)
                self.assertFalse(own["frozen"])
                self.assertGreater(own["bytes"]["activations"], 0)
                self.assertEqual(own["bytes"]["weights"], 2 * skeleton.parameters(module))
                self.assertEqual(own["bytes"]["optimizer"], 12 * skeleton.parameters(module))
            document = json.loads(self.output.read_text())
            self.assertEqual(document, outcome.document)
            other = "audio" if skeleton.encoder == "vision" else "vision"
            self.assertEqual((document["dtype"], document["modules"][other]["per_unit"]), ("float32", 0))
            self.assertEqual(set(document["versions"]), {"python", "torch", "transformers"})

    def test_a_frozen_encoder_has_no_backward_pass(self):
        self.profile(make_skeleton(self.directory, "internvl"), frozen=["vision"])
        predicted = self.predict("--vision", "16x4", "--llm", "100")
        self.assertEqual((predicted["vision"]["frozen"], predicted["llm"]["frozen"]), (True, False))
        self.assertEqual(predicted["vision"]["bytes"]["optimizer"], 0)

    def test_a_frozen_encoder_of_sounds_has_no_backward_pass(self):
        self.profile(make_skeleton(self.directory, "whisper"), frozen=["audio"])
        predicted = self.predict("--audio", "1500x4", "--llm", "60x4")
        self.assertEqual((predicted["audio"]["frozen"], predicted["llm"]["frozen"]), (True, False))

    def test_a_module_that_the_model_lacks_is_refused(self):
        for frozen, family in ((["audio"], "internvl"), (["vision"], "whisper")):
            with self.assertRaisesRegex(ValueError, f"frozen of {frozen[0]}: this model has no such module, only"):
                self.profile(make_skeleton(self.directory, family), frozen=frozen)
        with self.assertRaisesRegex(ValueError, "largest microbatch of vision: .* only audio and llm"):
            profile_directory(Settings(make_skeleton(self.directory, "qwen2_audio").directory, most_units=MOST))

    def test_layers_without_room_are_extrapolated(self):
        skeleton = make_skeleton(self.directory, "internvl", num_hidden_layers=12)
        layer = sum(own.numel() for own in skeleton.layers("llm")[0].parameters())
        bytes_of_four = 2 * 4 * (skeleton.parameters("llm") - 8 * layer)
        outcome = self.profile(skeleton, room=2 * bytes_of_four)
        llm, vision = outcome.modules["llm"], outcome.modules["vision"]
        self.assertEqual((llm.layers, llm.all_layers, vision.layers), (4, 12, 2))
        document = outcome.document["modules"]["llm"]
        self.assertEqual((document["architecture"]["layers"], [cut["layers"] for cut in document["cuts"]]),
                         (12, [2, 4]))
        self.assertIn("llm extrapolated from 4 of 12 layers", outcome.document["source"])
        self.assertEqual(self.predict("--llm", "100")["llm"]["bytes"]["weights"], 2 * skeleton.parameters("llm"))
        ran = {(point["sequences"], point["units"]): point["forward_s"] for point in document["cuts"][1]["points"]}
        for point in document["points"]:
            self.assertGreaterEqual(point["forward_s"] * (1 + 1e-9), ran[point["sequences"], point["units"]])

    def test_without_room_for_any_layer_it_is_an_error(self):
        with self.assertRaisesRegex(MemoryError, "vision: .* not even two of its layers fit"):
            self.profile(make_skeleton(self.directory, "internvl"), room=100_000)
        self.assertFalse(self.output.exists())

    def test_other_dtypes(self):
        for family in ("internvl", "qwen3_vl", "llava_onevision", "qwen2_audio", "whisper"):
            skeleton = make_skeleton(self.directory, family)
            outcome = self.profile(skeleton, dtype="bfloat16")
            self.assertEqual(outcome.document["dtype"], "bfloat16")
            self.assertEqual(sorted(outcome.modules), sorted([skeleton.encoder, "llm"]), family)


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Command(Directories):
    def setUp(self):
        super().setUp()
        self.output = self.directory / "profile.json"
        self.run_command = functools.partial(
            subprocess.run, capture_output=True, text=True, timeout=2 * TIMEOUT,
            env={**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"})

    def command(self, directory, *more):
        device = [] if "--device" in more else ["--device", "cpu"]
        return self.run_command([PROGRAM, "model", "profile", directory, "--output", self.output, "--budget", "0.01s",
                                 "--most-patches", "64", "--most-tokens", "32", *device, *more])

    def test_writes_a_profile_and_tells_what_it_measured(self):
        made = model_directories.make(self.directory / "llava", "llava")
        done = self.command(made, "--frozen", "vision", "--attention", "eager", "--json", "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        skeleton = Skeleton(str(made))
        for module, units in (("vision", 64), ("llm", 32)):
            own = told["modules"][module]
            self.assertEqual((own["parameters"], own["layers"], own["attention"], own["most_units"]),
                             (skeleton.parameters(module), own["measured_layers"], "eager", units))
        self.assertEqual(told["output"], str(self.output))
        profile = json.loads(self.output.read_text())
        self.assertTrue(all(point["backward_s"] == 0 for point in profile["modules"]["vision"]["points"]))
        self.assertTrue(all(point["backward_s"] > 0 for point in profile["modules"]["llm"]["points"]))
        self.assertIn("vision: 1 x 64: ", done.stderr)
        refused = self.command(made)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"{self.output} exists: --force replaces it", refused.stderr)

    def test_plan_measures_the_model_that_it_is_given(self):
        made = model_directories.make(self.directory / "planned", "llava")
        files, shards = self.directory / "files", self.directory / "shards"
        files.mkdir()
        for i in range(12):
            (files / f"s{i}.txt").write_text(f"picture {i}", encoding="utf-8")
            (files / f"s{i}.png").write_bytes(png(28 + 8 * i, 28, i))
        for command in (["make-shards", files, shards], ["tokenize", shards, "--model", made]):
            self.assertEqual(self.run_command([PROGRAM, *command]).returncode, 0)
        layout = self.directory / "layout.json"
        plan = [PROGRAM, "plan", "--model", made, "--data", shards, "--gpus", "2", "--gpu-memory", "8GiB",
                "--global-batch-size", "8", "--batches", "1", "--evaluations", "10", "--output", layout, "--json"]
        done = self.run_command([*plan, "--device", "cpu", "--budget", "0.01s"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("measuring the model in", done.stderr)
        self.assertIn("llm: 1 x ", done.stderr)  # its progress
        answer = json.loads(done.stdout)
        self.assertEqual(list(answer["took"]), ["data profile", "model profile", "search"])
        self.assertGreater(answer["took"]["model profile"], 0.01)
        measured = self.directory / "layout_profile.json"
        again = self.run_command([*plan, "--profile", measured, "--force"])
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(json.loads(again.stdout)["best"], answer["best"])
        kept = self.run_command([*plan, "--device", "cpu"])
        self.assertEqual(kept.returncode, 2)
        failed = self.run_command([*plan, "--device", "cuda:99", "--force"])
        self.assertEqual(failed.returncode, 1)
        self.assertIn("the model was not measured: see above", failed.stderr)
        again = self.command(made, "--force")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertRegex(again.stdout, r"(?m)^vision: 0.2 million parameters, 3 layers, attention sdpa; .* MiB$")

    def test_what_cannot_be_measured_is_refused(self):
        good = model_directories.make(self.directory / "llava", "llava")
        other = model_directories.make(self.directory / "other", "llava")
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "model_type": "mllama"}))
        for directory, more, status, says in (
            (other, [], 2, 'model_type is "mllama", for which there is no recipe; there is one for internvl, llava'),
            (self.directory / "gone", [], 2, "gone"),
            (good, ["--attention", "none-such"], 1, "none-such"),
            (good, ["--device", "tpu"], 1, "device 'tpu'"),
            (good, ["--dtype", "int8"], 2, "--dtype"),
            (good, ["--frozen", "llm"], 2, "--frozen"),
            (good, ["--example"], 2, "--example"),
        ):
            refused = self.command(directory, *more)
            self.assertEqual(refused.returncode, status, (more, refused.stderr))
            self.assertIn(says, refused.stderr)
            self.assertFalse(self.output.exists())


if __name__ == "__main__":
    main()
