"""Directories and shards whose names are not UTF-8."""

import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import unittest

import isocost
from support import PROGRAM, TIMEOUT, ShardTest, main

HAS_NEEDED = all(map(importlib.util.find_spec, ("tokenizers", "jinja2")))
NAME = os.fsdecode(b"d\xff\xfe \xc3\xa4")


class Names(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            (cls.directory / NAME).mkdir()
        except OSError as error:
            raise unittest.SkipTest(f"the file system has no such names: {error}") from None
        cls.data = cls.directory / NAME / "shards"
        shutil.copytree(cls.shards, cls.data, ignore=shutil.ignore_patterns(".isocost"))
        first = min(cls.data.glob("*.tar"))
        first.rename(first.with_name(os.fsdecode(b"\xfe") + first.name))

    def run_program(self, *arguments):
        run = subprocess.run([PROGRAM, *map(os.fsencode, map(str, arguments))], capture_output=True, timeout=TIMEOUT,
                             env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"})
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def test_the_loader_takes_every_form_of_the_name(self):
        index = self.directory / NAME / "index"
        for data in (self.data, str(self.data), os.fsencode(self.data)):
            with self.subTest(data=type(data)), \
                    isocost.DataLoader(data, global_batch_size=10, microbatches=2, epochs=1,
                                       node=isocost.NodeOptions(index_dir=index)) as loader:
                self.assertEqual(sum(len(microbatch.sample_ids) for microbatch in loader), 50)
                repr(loader)
                json.dumps(loader.stats())
        self.assertTrue(list(index.glob("*/*.idx")))

    def test_an_error_about_it_can_be_printed(self):
        with self.assertRaises(FileNotFoundError) as caught:
            isocost.DataLoader(self.data / "none", global_batch_size=10)
        self.assertIn(r"d\xff\xfe ä", str(caught.exception))

    def test_programs_take_it(self):
        html = self.directory / NAME / "report.html"
        self.run_program("index", self.data)
        self.run_program("check", self.data)
        json.loads(self.run_program("check", "--json", self.data))
        json.loads(self.run_program("data", "profile", self.data, "--json", "--html", html))
        self.assertTrue(html.exists())
        json.loads(self.run_program("predict", "--data", self.data, "--sample", "s0001", "--json"))
        made = self.directory / NAME / "made"
        self.run_program("make-shards", self.directory / "files", made)
        self.assertTrue(list(made.glob("*.tar")))

    def test_a_node_serves_it(self):
        _node, endpoint = self.serve("--epochs", 1, "--ranks", 1, "--global-batch-size", 10, "--summary",
                                     self.directory / NAME / "summary.json", data=self.data)
        with isocost.DataLoader(endpoint) as loader:
            self.assertEqual(sum(len(microbatch.sample_ids) for microbatch in loader), 50)

    @unittest.skipUnless(HAS_NEEDED, "tokenizers or jinja2 is not installed: ./run test --torch2 has them")
    def test_a_models_directory_and_its_tokens(self):
        import model_directories

        # The package tokenizers writes no file of such a name.
        model = model_directories.make(self.directory / "model").rename(self.directory / NAME / "model")
        data = self.directory / NAME / "texts"
        data.mkdir()
        with tarfile.open(data / os.fsdecode(b"\xff.tar"), "w") as out:
            for i in range(8):
                content = json.dumps({"messages": [{"role": "user", "content": f"{i}?"},
                                                   {"role": "assistant", "content": "a"}]}).encode()
                entry = tarfile.TarInfo(f"{i}.json")
                entry.size = len(content)
                out.addfile(entry, io.BytesIO(content))
        with isocost.DataLoader(data, model=model, loss="token_loss", global_batch_size=4, microbatches=1,
                                epochs=1) as loader:
            self.assertEqual(sum(len(microbatch.sample_ids) for microbatch in loader), 8)
        said = self.run_program("tokenize", data, "--model", model)
        self.assertIn(b"tokenized 0 of 1 shard", said)
        said = self.run_program("tokenize", data, "--model", model, "--labels", "last", "--force", "--json")
        found = json.loads(said)
        self.assertEqual(found["tokenized_shards"], 1)
        self.assertTrue(os.path.isdir(found["directory"]))
        self.run_program("predict", "--data", data, "--model", model, "--sample", "3", "--json")


if __name__ == "__main__":
    main()
