"""A size of pictures that is given beside a model's directory: the loader, a node and every program make what
transformers makes of a directory with that size, of the same tokens."""

import json
import shutil
import subprocess
import unittest

import isocost
from model_test import MISSING, ORACLES, Directories, whatever_the_loss
from support import PROGRAM, TIMEOUT, main

if not MISSING:
    import torch

    import model_directories
    from model_test import ORDER, sample_rows, this_python_first, write_shards

# Families, and sizes that change most of the pictures of the tests.
SIZES = {
    "qwen2_vl": {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 20},
    "qwen3_vl": {"min_pixels": 32 * 32 * 4, "max_pixels": 32 * 32 * 12},
    "internvl": {"max_patches": 3},
}
KEY = "2.tar/s5"  # has pictures of 333x517 and 224x168


def text(size):
    return ",".join(f"{name}={value}" for name, value in size.items())


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class ImageSize(Directories):
    def setUp(self):
        super().setUp()
        self.samples = write_shards(self.shards)

    def with_size(self, family, size):
        """A directory whose own file has the size."""
        model = model_directories.make(self.directory / f"{family}-resized", family, model=True)
        file = model / "preprocessor_config.json"
        settings = json.loads(file.read_text())
        if "size" in settings and "max_pixels" in size:  # The file says it in another way.
            settings["size"] = {"shortest_edge": size.get("min_pixels", settings["size"]["shortest_edge"]),
                                "longest_edge": size["max_pixels"]}
            settings.pop("min_pixels", None)
            settings.pop("max_pixels", None)
        else:
            settings.update(size)
        file.write_text(json.dumps(settings))
        return model

    def tokens(self):
        return {file: file.stat().st_mtime_ns for file in self.shards.glob(".isocost/*.tokens")}

    def run_program(self, *arguments, status=0):
        run = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT,
                             env=this_python_first())
        self.assertEqual(run.returncode, status, run.stderr)
        return run.stderr if status else run.stdout

    def loader(self, data, model, **options):
        loader = isocost.DataLoader(data, model=model, **options)
        self.addCleanup(loader.close)
        return loader

    def compare(self, loader, oracle):
        seen = []
        for microbatch in loader:
            first = 0
            for key, (ids, labels, _positions) in zip(microbatch.sample_keys, sample_rows(microbatch)):
                wanted = oracle.sample(key)
                self.assertEqual(ids.tolist(), wanted["input_ids"][0].tolist(), key)
                self.assertEqual(labels.tolist(), wanted["labels"][0].tolist(), key)
                if "pixel_values" in wanted:
                    rows = slice(first, first + len(wanted["pixel_values"]))
                    self.assertTrue(torch.equal(microbatch["pixel_values"][rows], wanted["pixel_values"]), key)
                    first = rows.stop
                seen.append(key)
        self.assertEqual(sorted(seen), sorted(self.samples))

    @whatever_the_loss
    def test_pictures_are_those_of_a_directory_with_the_size(self):
        for family, size in SIZES.items():
            if family not in ORACLES:
                continue
            with self.subTest(family=family):
                model = self.made(family)
                shutil.rmtree(self.shards / ".isocost", ignore_errors=True)
                with isocost.DataLoader(self.shards, model=model, global_batch_size=12, microbatches=2, epochs=1,
                                        node=ORDER) as loader:
                    without = sum(microbatch["input_ids"].numel() for microbatch in loader)
                tokens = self.tokens()
                self.assertEqual(len(tokens), 3)
                loader = self.loader(self.shards, model, image_size=size, global_batch_size=12, microbatches=2,
                                     epochs=1, node=ORDER)
                self.compare(loader, ORACLES[family](self.with_size(family, size), self.samples))
                with isocost.DataLoader(self.shards, model=model, image_size=size, global_batch_size=12,
                                        microbatches=2, epochs=1, node=ORDER) as loader:
                    self.assertLess(sum(microbatch["input_ids"].numel() for microbatch in loader), without)
                said = self.run_program("tokenize", self.shards, "--model", model, "--image-size", text(size))
                self.assertIn("tokenized 0 of 3 shards; the others were current", said)
                self.assertEqual(self.tokens(), tokens)

    @whatever_the_loss
    def test_a_node_and_its_client_have_the_same_size(self):
        model, size = self.made(), SIZES["qwen2_vl"]
        self.run_program("tokenize", self.shards, "--model", model, "--image-size", text(size))
        node = subprocess.Popen([PROGRAM, "serve", "--data", self.shards, "--model", model, "--image-size", text(size),
                                 "--bind", "tcp://127.0.0.1:*", "--epochs", "1", "--global-batch-size", "12",
                                 "--microbatches", "2", "--resize-order", ORDER.resize_order],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        endpoint = node.stdout.readline().split()[-1]
        for other in (None, {"max_pixels": 28 * 28 * 21}):
            with self.assertRaisesRegex(ValueError, "pictures of another size.*the same image_size"):
                len(self.loader(endpoint, model, image_size=other))
        with self.assertRaisesRegex(ValueError, "image_size=.*there is no model="):
            isocost.DataLoader(endpoint, image_size=size)
        loader = self.loader(endpoint, model, image_size=size)
        self.compare(loader, ORACLES["qwen2_vl"](self.with_size("qwen2_vl", size), self.samples))

    def test_programs_tell_the_same_load(self):
        model, size = self.made(), SIZES["qwen2_vl"]
        resized = self.with_size("qwen2_vl", size)
        self.run_program("tokenize", self.shards, "--model", model)
        for command in (("predict", "--data", self.shards, "--sample", KEY), ("data", "profile", self.shards)):
            with self.subTest(command=command[0]):
                given, wanted = (json.loads(self.run_program(*command, "--json", *how)) for how in (
                    ("--model", model, "--image-size", text(size)), ("--model", resized)))
                self.assertNotEqual(given, json.loads(self.run_program(*command, "--json", "--model", model)))
                self.assertEqual(given, wanted)
        self.run_program("check", self.shards, "--model", model, "--image-size", text(size))

    def test_a_size_that_the_model_does_not_have_is_refused_everywhere(self):
        model = self.made()
        refusal = "image_size: models of type qwen2_vl take max_pixels and min_pixels, and not max_patches"
        with self.assertRaisesRegex(ValueError, refusal):
            isocost.DataLoader(self.shards, model=model, image_size={"max_patches": 3})
        for command in (["tokenize", self.shards, "--model", model], ["check", self.shards, "--model", model],
                        ["data", "profile", self.shards, "--model", model],
                        ["serve", "--data", self.shards, "--model", model],
                        ["predict", "--data", self.shards, "--model", model, "--sample", KEY],
                        ["model", "profile", model, "--output", self.directory / "profile.json"]):
            with self.subTest(command=command[0]):
                if command[0] in ("data", "predict", "check", "serve"):
                    self.run_program("tokenize", self.shards, "--model", model)
                run = subprocess.run([PROGRAM, *map(str, command), "--image-size", "max_patches=3"],
                                     capture_output=True, text=True, timeout=TIMEOUT, env=this_python_first())
                self.assertIn(refusal, run.stderr)
                self.assertNotEqual(run.returncode, 0)
        llava = self.made("llava")
        with self.assertRaisesRegex(ValueError, "models of type llava have no sizes of pictures to choose from"):
            isocost.DataLoader(self.shards, model=llava, image_size={"max_pixels": 3})
        with self.assertRaisesRegex(ValueError, "image_size: it is for a model's pictures; give model"):
            isocost.DataLoader(self.shards, image_size={"max_pixels": 3})
        for given in ("max_pixels=3", {"max_pixels": 2.5}, {"max_pixels": True}, {3: 3}):
            with self.assertRaisesRegex(TypeError, "image_size"):
                isocost.DataLoader(self.shards, model=model, image_size=given)

    def test_names_of_other_loaders_lead_to_it(self):
        for name in ("max_pixels", "min_pixels"):
            with self.assertRaisesRegex(TypeError, rf"'{name}'.*DataLoader\(image_size=\{{'{name}': \.\.\.\}}\)"):
                isocost.DataLoader(self.shards, model=self.made(), **{name: 3})
            with self.assertRaisesRegex(TypeError, rf"'{name}'.*DataLoader\(image_size=\{{'{name}': \.\.\.\}}\)"):
                isocost.NodeOptions(**{name: 3})
        said = self.run_program("serve", "--data", self.shards, "--max-pixels", 3, status=2)
        self.assertIn("there is no flag '--max-pixels'; isocost serve calls it --image-size", said)

    @whatever_the_loss
    def test_the_limit_of_decoding_is_the_same_for_tokens_and_node(self):
        """An index of another limit has other samples, and its tokens are others."""
        model, limit = self.made(), 640 * 480 - 1
        options = {"model": model, "global_batch_size": 4, "microbatches": 1, "epochs": 1}
        node = isocost.NodeOptions(max_decoded_pixels=limit, max_bad_samples=50)
        with isocost.DataLoader(self.shards, node=node, **options) as loader:
            seen = [key for microbatch in loader for key in microbatch.sample_keys]
        small = [key for key, (_messages, pictures) in self.samples.items()
                 if all(picture.width * picture.height <= limit for picture in pictures)]
        self.assertEqual(sorted(seen), sorted(small))
        self.assertLess(len(small), len(self.samples))
        tokens = self.tokens()
        said = self.run_program("tokenize", self.shards, "--model", model, "--max-decoded-pixels", limit)
        self.assertIn("tokenized 0 of 3 shards; the others were current", said)
        with isocost.DataLoader(self.shards, node=node, **options) as loader:
            self.assertGreater(len(list(loader)), 0)
        self.assertEqual(self.tokens(), tokens)
        # A node that is given another limit names the command that makes its tokens.
        said = self.run_program("serve", "--data", self.shards, "--model", model, "--max-decoded-pixels", 100_000,
                                status=2)
        self.assertIn(f"isocost tokenize {self.shards} --model {model} --max-decoded-pixels 100000 makes them", said)


if __name__ == "__main__":
    main()
