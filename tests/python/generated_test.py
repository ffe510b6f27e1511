"""Checks that Python and C++ agree: typed settings of a node, the extension module's stub, and the options
of `isocost tokenize`, which the program hands to Python."""

import dataclasses
import importlib.util
import inspect
import pathlib
import pickle
import re
import subprocess
import sys
import unittest

import isocost
from isocost import _isocost
from isocost.options import arguments
from isocost.tokens.conversation import DEFAULT_LABELS, LABELS, MEDIA_MARK
from support import PROGRAM, TIMEOUT, ShardTest, main

GENERATORS = pathlib.Path(__file__).parents[2] / "trainer_adapter" / "python" / "generate"


def generator(name):
    spec = importlib.util.spec_from_file_location(name, GENERATORS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Files(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        module = generator(name)
        self.assertEqual(module.FILE.read_text(), module.text(), f"run {GENERATORS / name}.py, whose docstring says "
                                                                 "how")

    def test_node_options(self):
        self.check("node_options")

    def test_stub(self):
        self.check("stub")


class TokenizeOptions(unittest.TestCase):
    def help_of(self, *command):
        return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, timeout=TIMEOUT).stdout

    def test_the_program_has_those_of_the_module(self):
        program = self.help_of(PROGRAM, "tokenize")
        module = self.help_of(sys.executable, "-B", "-m", "isocost.tokenize")
        options = set(re.findall(r"--[a-z-]+", module))
        self.assertIn("--caption-template", options)
        for option in options:
            self.assertRegex(program, rf"{option}\b")
        offered = set(re.findall(r"^ +(?:-h,)?(--[a-z-]+)", program, re.MULTILINE))
        self.assertEqual(offered, options)
        [choices] = re.findall(r"\{([a-z,]+)\}", program)
        self.assertEqual(set(choices.split(",")), set(LABELS))
        self.assertIn(f", else {DEFAULT_LABELS}]", program)
        self.assertIn(f", else {MEDIA_MARK}]", program)


class Settings(ShardTest):
    OTHERS = isocost.NodeOptions(
        recipe=isocost.RecipeOptions(max_image_patches=512, max_frame_patches=256, video_fps=2.5, max_video_frames=4,
                                     max_audio_seconds=3.5, max_text_tokens=100),
        lookahead=2, steps=3, skip_steps=("1",), shuffle_shards=2, tail="drop", resize_order="pillow-13",
        exactness="fast", alpha="drop", truncated="accept",
        padded=("vision", "llm"), padded_multiple=8, dummy_media="off", correct=False,
        reprofile_budget=0.25, ignore_parts=("avif", "seg.png"),
        weight_key="scale", media_root="media", number_keys=True, text="txt", format="webdataset",
        on_bad_sample="replace", max_bad_samples=3, allow_broken_shards="1%", accept_unread_archives=True,
        max_decoded_pixels=1 << 20, memory="64MiB", microbatch_memory=1 << 24,
        max_tokens=100_000, max_vision_tokens=200_000, max_memory="1TiB",
        workers=1, io_timeout=7.5, plan_ahead=1, metrics="0", io_threads=2, shared_memory=False,
        decode_timeout=20.0, isolate=True, cache_size="64MiB", decode_program=PROGRAM, stall_timeout=90.0)

    def test_defaults_are_the_tables(self):
        table = {name: default for name, _value, _text, default in _isocost.option_table()}
        decided = generator("node_options").LOADER_SETTINGS
        self.assertEqual(arguments.node_settings(None, {}).pairs(), [])

        def defaults_but(options, left_out):
            return options(**{field.name: field.default for field in dataclasses.fields(options)
                              if field.name != left_out})

        settings = arguments.node_settings(defaults_but(isocost.NodeOptions, "recipe"),
                                           {"recipe": defaults_but(isocost.RecipeOptions, "name")})
        self.assertEqual(dict(settings.pairs()), {name: table[name] for name in table if name not in decided})

    def test_every_setting_but_files_reaches_the_node(self):
        changed = {field.name for field in dataclasses.fields(self.OTHERS)
                   if getattr(self.OTHERS, field.name) != getattr(isocost.NodeOptions(), field.name)}
        self.assertEqual({field.name for field in dataclasses.fields(self.OTHERS)} - changed,
                         {"profile", "correction_file", "bad_samples_file", "index_dir", "ca_file", "cache", "balance",
                          "model", "on_long", "split"})  # the shards have none
        files = {name: self.directory / name for name in ("correction_file", "bad_samples_file", "index_dir")}
        options = dataclasses.replace(self.OTHERS, **files)
        with isocost.DataLoader(self.shards, global_batch_size=8, microbatches=2, shuffle="blocks",
                                node=options) as loader:
            microbatches = list(loader)
        self.assertFalse(files["bad_samples_file"].exists())
        self.assertEqual({microbatch.step for microbatch in microbatches}, {0, 1})
        self.assertLessEqual(max(int(lengths.max()) for microbatch in microbatches
                                 for lengths in [microbatch.get("vision_lengths")] if lengths is not None), 512)
        self.assertTrue(list((self.directory / "index_dir").iterdir()))
        with self.assertRaisesRegex(ValueError, "only balance = cost"):
            isocost.DataLoader(self.shards, shuffle="blocks", node=dataclasses.replace(options, balance="tokens"))
        for shuffle in (None, True, False, "global", "off"):
            with self.assertRaisesRegex(ValueError, "shuffle_shards: only shuffle = blocks draws from windows"):
                isocost.DataLoader(self.shards, shuffle=shuffle, node=isocost.NodeOptions(shuffle_shards=16))

    def test_a_recipe_has_a_short_form(self):
        short = arguments.node_settings(isocost.NodeOptions(recipe="native28"), {})
        self.assertEqual(short.pairs(), [("recipe.name", "native28")])
        self.assertEqual(short.pairs(), arguments.node_settings(None, {"recipe": isocost.RecipeOptions()}).pairs())

    def test_a_recipe_beside_a_model_is_refused_whatever_it_says(self):
        for recipe in ("native28", isocost.RecipeOptions(), isocost.RecipeOptions(video_fps=2.0)):
            for node, direct in ((None, {"model": "dir", "recipe": recipe}),
                                 (isocost.NodeOptions(recipe=recipe), {"model": "dir"}),
                                 (isocost.NodeOptions(recipe=recipe, model="dir"), {})):
                settings = arguments.node_settings(node, direct)
                settings.add("data", self.shards, "data=")
                with self.assertRaisesRegex(ValueError, "model and recipe are both given: .* dir .*leave recipe out"):
                    _isocost.NodeOptions(settings.pairs(), None, "")

    def test_direct_arguments_join_node_options(self):
        settings = dict(arguments.node_settings(self.OTHERS, {"profile": pathlib.Path("a.json"),
                                                              "workers": None}).pairs())
        self.assertEqual((settings["profile"], settings["workers"], settings["padded"], settings["correct"]),
                         ("a.json", "1", "vision,llm", "off"))

    def test_settings_given_twice_are_refused(self):
        defaults = {name: getattr(isocost.NodeOptions(), name) for name in ("workers", "memory", "recipe")}
        for node in (self.OTHERS, isocost.NodeOptions(**defaults), isocost.NodeOptions(isocost.RecipeOptions(),
                                                                                       workers=0, memory="2GiB")):
            for name, value in (("workers", 1), ("memory", "1GiB"), ("recipe", "native28")):
                with self.assertRaisesRegex(ValueError, f"^{name}= and node=isocost.NodeOptions\\({name}=...\\) say "
                                                        "the same"):
                    isocost.DataLoader(self.shards, node=node, **{name: value})

    def test_a_copy_is_given_what_differs_from_the_defaults(self):
        for node in (dataclasses.replace(isocost.NodeOptions(steps=2), lookahead=2),
                     pickle.loads(pickle.dumps(isocost.NodeOptions(steps=2, lookahead=2)))):
            self.assertEqual({name for name, _value in arguments.node_settings(node, {"workers": None}).pairs()},
                             {"steps", "lookahead"})
            self.assertEqual(arguments.node_settings(node, {"workers": 3}).value("workers"), "3")

    def test_help_shows_the_fields(self):
        self.assertEqual(list(inspect.signature(isocost.NodeOptions).parameters),
                         [field.name for field in dataclasses.fields(isocost.NodeOptions)])

    def test_other_types_are_refused(self):
        for options, pattern in (({"node": {"workers": 2}}, "^node = {'workers': 2}: must be an isocost.NodeOptions"),
                                 ({"recipe": 28}, "^recipe = 28: must be a recipe's name or"),
                                 ({"node": isocost.NodeOptions(recipe=None)}, "^recipe = None")):
            with self.assertRaisesRegex(TypeError, pattern):
                isocost.DataLoader(self.shards, **options)

    def test_they_are_frozen(self):
        with self.assertRaises(dataclasses.FrozenInstanceError):
            self.OTHERS.workers = 3


if __name__ == "__main__":
    main()
