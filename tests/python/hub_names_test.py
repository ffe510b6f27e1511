"""Models by their names on the hub: downloaded once on each host without weights, found in the cache, refused in plain
words."""

import collections
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

# This process is offline. Packages read this when they are imported.
HOME = tempfile.mkdtemp(prefix="isocost-hub-home-")
os.environ.update(HF_HOME=HOME, HF_HUB_OFFLINE="1")
unittest.addModuleCleanup(shutil.rmtree, HOME, ignore_errors=True)

import isocost  # noqa: E402
from isocost import model_directory  # noqa: E402
from isocost.rendezvous.once import once  # noqa: E402
from isocost.rendezvous.rendezvous import Process, endpoints  # noqa: E402
from support import PROGRAM, TIMEOUT, ShardTest, main, torchrun  # noqa: E402

NEEDED = ("huggingface_hub", "transformers", "tokenizers", "jinja2", "PIL", "torchvision", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import hub_server
    import model_directories
    from finetune_test import write_llava

RANK = pathlib.Path(__file__).with_name("hub_names_rank.py")
NAME = "tiny/qwen"
FAMILY = "qwen2_5_vl"
SAMPLES = 13
ALONE = Process(0, 1)


class Model(unittest.TestCase):
    """A tiny model, and shards of conversations about pictures."""

    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-hub-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.model = model_directories.make(cls.directory / "model", FAMILY, model=True)
        cls.files = hub_server.files_of(cls.model)
        cls.changed = {**cls.files, "chat_template.jinja": cls.files["chat_template.jinja"] + b"{# changed #}\n"}
        files = cls.directory / "files"
        files.mkdir()
        cls.shards = cls.directory / "shards"
        subprocess.run([PROGRAM, "make-shards", write_llava(files, SAMPLES), cls.shards], check=True,
                       capture_output=True, timeout=TIMEOUT)

    def tokens(self):
        """{file of tokens: when it was written}."""
        return {path.name: path.stat().st_mtime_ns for path in (self.shards / ".isocost").iterdir()
                if "tokens" in path.name}

    def home(self):
        """A new HF_HOME."""
        return pathlib.Path(tempfile.mkdtemp(dir=self.directory))

    def loaders(self, environment, *options):
        """Returns the attributes of loaders with these options, made in a process with this environment."""
        run = subprocess.run([sys.executable, "-B", str(RANK), str(self.shards), json.dumps(options)], env=environment,
                             capture_output=True, text=True, timeout=2 * TIMEOUT, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return [json.loads(line) for line in run.stdout.splitlines()]

    def ranks(self, environment, *options, ranks=2):
        """Returns the attributes of loaders with these options, made in each of several ranks with this environment."""
        with unittest.mock.patch.dict(os.environ, environment, clear=True):
            run = torchrun([RANK, self.shards, json.dumps(options)], ranks)
        return [json.loads(line) for line in run.stdout.splitlines()]


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Downloads(Model):
    def setUp(self):
        models = {NAME: {"main": self.files, "v1": self.changed}, hub_server.GATED: {"main": self.files}}
        self.hub = hub_server.HubServer(models)
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)

    def read(self):
        return sorted(set(self.files) & set(model_directory.FILES))

    def test_files_are_downloaded_once_without_weights_and_give_equal_tensors_offline_too(self):
        home = self.home()
        snapshot = home / "hub" / "models--tiny--qwen" / "snapshots" / hub_server.commit_of(self.files)
        (given,) = self.loaders(hub_server.environment(home), {"model": str(self.model)})
        made = self.tokens()
        self.assertTrue(made)
        first, second = self.loaders(hub_server.environment(home, self.hub.endpoint), {"model": NAME}, {"model": NAME})
        self.assertEqual(given["model"], str(self.model))
        self.assertEqual(first, {"model": str(snapshot), "digest": given["digest"]})
        self.assertEqual(second, first)
        self.assertEqual(self.hub.downloads(), self.read())
        self.assertFalse([line for line in self.hub.requests if "safetensors" in line])
        self.hub.requests.clear()
        offline, pinned = self.loaders(hub_server.environment(home), {"model": NAME},
                                       {"model": NAME, "revision": snapshot.name})
        self.assertEqual((offline, pinned), (first, first))
        (unreachable,) = self.loaders(hub_server.environment(home, "http://127.0.0.1:9"), {"model": NAME})
        self.assertEqual(unreachable, first)
        self.assertEqual(self.hub.requests, [])
        self.assertEqual(self.tokens(), made)

    def test_a_revision_is_passed_on(self):
        home, commit = self.home(), hub_server.commit_of(self.changed)
        first, second = self.loaders(hub_server.environment(home, self.hub.endpoint), {"model": NAME, "revision": "v1"},
                                     {"model": NAME, "revision": commit})
        self.assertEqual(pathlib.Path(first["model"]).name, commit)
        self.assertEqual(second, first)
        self.assertIn(f"GET /api/models/{NAME}/revision/v1", self.hub.requests)
        self.assertFalse([line for line in self.hub.requests if "/main" in line])

    def test_of_the_ranks_of_a_host_one_asks(self):
        told = self.ranks(hub_server.environment(self.home(), self.hub.endpoint), {"model": NAME}, {"model": NAME})
        self.assertEqual(len(told), 4)
        self.assertEqual({pathlib.Path(each["model"]).name for each in told}, {hub_server.commit_of(self.files)})
        self.assertEqual(self.hub.downloads(), self.read())
        asked = [line for line in self.hub.requests if "/revision/" in line]
        self.assertEqual(asked, [f"GET /api/models/{NAME}/revision/main"] * 2)  # one for each pair of loaders

    def test_all_ranks_raise_the_error_of_the_one_that_asks(self):
        told = self.ranks(hub_server.environment(self.home(), self.hub.endpoint), {"model": "tiny/none"},
                          {"model": NAME})
        failed, made = ([each for each in told if ("error" in each) is wanted] for wanted in (True, False))
        self.assertEqual(len(made), 2)
        self.assertEqual(failed, failed[:1] * 2)
        self.assertEqual(failed[0]["error"], "FileNotFoundError")
        self.assertEqual(len([line for line in self.hub.requests if "tiny/none" in line]), 1)

    def test_what_the_hub_refuses_is_told_with_what_to_do(self):
        expected = [
            ({"model": NAME, "revision": "v2"}, "ValueError",
             "^model = 'tiny/qwen', revision = 'v2': the model on the hub has no such branch, tag or commit; leave "),
            ({"model": "tiny/none"}, "FileNotFoundError",
             "^model = 'tiny/none': there is no such directory here, and the hub at http://127.0.0.1:[0-9]+ has no "
             "model of this name, or a private one .404.: check the name, or give a directory; .*`hf auth login`"),
            ({"model": hub_server.PRIVATE}, "FileNotFoundError", "or a private one .401.: .*`hf auth login`"),
            ({"model": hub_server.GATED}, "PermissionError", "accepted its terms: .*`hf auth login`"),
            ({"model": hub_server.REFUSED}, "PermissionError", "refuses access .403.: .*HF_TOKEN"),
            ({"model": hub_server.BROKEN}, "ConnectionError",
             r"did not give .*501.*: give a directory, or run `hf download tiny/broken --include '\*\.j\*'`"),
            ({"model": "tiny/a..b"}, "FileNotFoundError", "no such directory here, and it is no name of a model")]
        told = self.loaders(hub_server.environment(self.home(), self.hub.endpoint), *(each[0] for each in expected))
        for (options, kind, message), each in zip(expected, told):
            self.assertEqual(each["error"], kind, options)
            self.assertRegex(each["message"], message)
        (each,) = self.loaders(hub_server.environment(self.home(), "http://127.0.0.1:9"), {"model": NAME})
        self.assertEqual(each["error"], "ConnectionError")
        self.assertRegex(each["message"], "^model = 'tiny/qwen': .* which the hub at http://127.0.0.1:9 did not give "
                                          ".*refused.*: give a directory, or run `hf download tiny/qwen --include")


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class Cached(Model):
    """This process is offline, and its cache has the model."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.snapshot = hub_server.fill_cache(HOME, NAME, cls.files)

    def loader(self, data=None, **options):
        made = isocost.DataLoader(data or self.shards, **options)
        self.addCleanup(made.close)
        return made

    def test_the_trainer_takes_model_and_loader_of_one_name(self):
        import transformers

        from isocost.integrations.transformers import Trainer

        model = transformers.AutoModelForImageTextToText.from_pretrained(NAME)
        self.assertEqual(model.name_or_path, NAME)
        loader = self.loader(model=NAME, global_batch_size=4, microbatches=2)
        self.assertEqual(loader.model, str(self.snapshot))
        settings = transformers.TrainingArguments(self.directory / "out", report_to=[], use_cpu=True, max_steps=2,
                                                  disable_tqdm=True, save_strategy="no")
        trainer = Trainer(model, settings, train_dataset=loader,
                          processing_class=transformers.AutoProcessor.from_pretrained(NAME))
        self.assertEqual(trainer.train().global_step, 2)

    def test_with_a_node_elsewhere(self):
        subprocess.run([sys.executable, "-m", "isocost.tokenize", str(self.shards), "--model", str(self.model)],
                       check=True, capture_output=True, timeout=TIMEOUT)
        node = subprocess.Popen([PROGRAM, "serve", "--data", self.shards, "--model", self.model, "--bind",
                                 "tcp://127.0.0.1:*", "--global-batch-size", "4", "--microbatches", "2"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        loader = self.loader(node.stdout.readline().split()[-1], model=NAME)
        self.assertIn("pixel_values", next(each for each in loader if "pixel_values" in each))

    def test_what_is_not_cached_is_told_with_what_to_do(self):
        for options, of in (({"model": "tiny/none"}, r"tiny/none --include '\*\.j\*'"),
                            ({"model": NAME, "revision": "v2"}, r"tiny/qwen --include '\*\.j\*' --revision v2")):
            with self.assertRaisesRegex(FileNotFoundError, "no such directory here, and the hub's cache .* lacks files "
                                        rf"of it, which HF_HUB_OFFLINE forbids to download: run `hf download {of}` "
                                        r"where there is a network, .* or give a directory$"):
                self.loader(**options)

    def test_a_part_of_a_model_is_told_by_what_it_lacks(self):
        part = {name: content for name, content in self.files.items() if name in ("config.json", "model.safetensors")}
        hub_server.fill_cache(HOME, "tiny/part", part)
        with self.assertRaisesRegex(FileNotFoundError, "lacks tokenizer.json, preprocessor_config.json or "
                                    "processor_config.json. If the hub has the file, `hf download tiny/part"):
            self.loader(model="tiny/part")

    def test_a_directory_comes_before_a_name(self):
        here = self.directory / "here"
        shutil.copytree(self.model, here / NAME)
        old = os.getcwd()
        self.addCleanup(os.chdir, old)
        os.chdir(here)
        self.assertEqual(self.loader(model=NAME).model, NAME)
        with self.assertRaisesRegex(ValueError, "^revision = 'main': model = 'tiny/qwen' is a directory, which has no"):
            self.loader(model=NAME, revision="main")

    def test_programs_say_that_they_take_directories(self):
        tokenize = [sys.executable, "-m", "isocost.tokenize", self.shards, "--model", "tiny/none"]
        for command in (tokenize, [PROGRAM, "serve", "--data", self.shards, "--model", "tiny/none"],
                        [PROGRAM, "model", "profile", "tiny/none"]):
            run = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT, check=False)
            self.assertNotEqual(run.returncode, 0)
            self.assertRegex(run.stderr, r"tiny/none.*`hf download tiny/none --include '\*\.j\*' --local-dir DIR`")
            self.assertIn("Names of models on the hub are for isocost.DataLoader alone", run.stderr)


class Arguments(ShardTest):
    def test_bad_arguments(self):
        nowhere = "it is neither a directory here nor the name of a model on the hub"
        for options, kind, message in (
                ({"model": "nowhere"}, FileNotFoundError, f"^model = 'nowhere': {nowhere}"),
                ({"model": ""}, FileNotFoundError, f"^model = '': {nowhere}"),
                ({"model": "/no/where"}, FileNotFoundError, f"^model = '/no/where': {nowhere}"),
                ({"model": "./no/where"}, FileNotFoundError, nowhere),
                ({"model": "a/b/c"}, FileNotFoundError, nowhere),
                ({"model": "tiny/qwen\n"}, FileNotFoundError, nowhere),
                ({"model": pathlib.Path("tiny/qwen")}, FileNotFoundError, nowhere),
                ({"model": "tiny/qwen", "revision": ""}, ValueError, "^revision = '': must be a branch"),
                ({"model": "tiny/qwen", "revision": 1}, TypeError, "^revision = 1: must be text"),
                ({"model": self.directory, "revision": "v1"}, ValueError, "^revision = 'v1': model = .* is a direct"),
                ({"revision": "v1"}, ValueError, "^revision = 'v1': there is no model="),
                ({"model": 7}, TypeError, "")):
            with self.assertRaisesRegex(kind, message, msg=options):
                isocost.DataLoader(self.shards, **options)

    def test_without_the_package_the_extra_is_named(self):
        with unittest.mock.patch.dict(sys.modules, {"huggingface_hub": None}):
            with self.assertRaisesRegex(ImportError, r"^model = 'tiny/none': there is no such directory here, and .* "
                                        r"\(the extra isocost\[models\]\), or give a directory"):
                isocost.DataLoader(self.shards, model="tiny/none")

    def test_the_extra_has_the_package(self):
        project = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text()
        self.assertRegex(project, r'(?m)^models = \["huggingface_hub"')


class Once(unittest.TestCase):
    """Agreement of processes, here one after another."""

    def setUp(self):
        from torch import distributed

        self.store = distributed.HashStore()

    def test_the_first_works_and_the_others_learn_what_became_of_it(self):
        self.assertEqual(once(self.store, "a", 5, lambda: "first"), "first")
        self.assertEqual(once(self.store, "a", 5, self.fail), "first")
        for error in (ValueError("no"), PermissionError("none"), ImportError("never")):
            for work in (unittest.mock.Mock(side_effect=error), self.fail):
                with self.assertRaisesRegex(type(error), f"^{error}$"):
                    once(self.store, str(error), 5, work)
        with self.assertRaises(KeyboardInterrupt):
            once(self.store, "b", 5, unittest.mock.Mock(side_effect=KeyboardInterrupt))
        with self.assertRaisesRegex(RuntimeError, "^KeyboardInterrupt$"):
            once(self.store, "b", 5, self.fail)

    def test_a_wait_ends(self):
        self.store.add("a/asked", 1)  # by a process that was killed
        with self.assertRaisesRegex(TimeoutError, "within 0.2 s"):
            once(self.store, "a", 0.2, self.fail)

    def test_a_lost_store_is_no_late_process(self):
        from torch import distributed

        serving = subprocess.Popen([sys.executable, "-c", """
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
input()
"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(serving.communicate)
        store = distributed.TCPStore("127.0.0.1", int(serving.stdout.readline()), is_master=False)
        store.add("a/asked", 1)
        threading.Timer(1, serving.kill).start()
        with self.assertRaisesRegex(ConnectionError, "^the store of torch.distributed was lost: "):
            once(store, "a", 60, self.fail)

    def test_hosts_take_the_commit_of_the_first(self):
        def found_on(host, commits):
            """Returns the directory that a process of `host` finds, and the revisions that it asked for. `commits`:
            those in the caches or the hub of this host, by revision."""
            def snapshot(name):
                asked.append(name.revision)
                return f"{self.directory}/{host}/{commits[name.revision]}"

            asked = []
            with unittest.mock.patch.object(model_directory.HubName, "snapshot", snapshot), \
                    unittest.mock.patch.object(model_directory, "host", lambda: host), \
                    unittest.mock.patch.object(model_directory, "_asked", collections.Counter()), \
                    unittest.mock.patch.object(endpoints, "store", lambda *_: self.store):
                found = model_directory.model_directory(NAME, None, ALONE, 5)
            return found, asked

        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        for folder in ("a/one", "b/one", "b/two"):
            os.makedirs(f"{self.directory}/{folder}")
        self.assertEqual(found_on("a", {None: "one"}), (f"{self.directory}/a/one", [None]))
        self.assertEqual(found_on("b", {None: "two", "one": "one"}), (f"{self.directory}/b/one", [None, "one"]))
        self.assertEqual(found_on("b", {}), (f"{self.directory}/b/one", []))
        os.rmdir(f"{self.directory}/b/one")  # as of another container of this name
        self.assertEqual(found_on("b", {None: "two"}), (f"{self.directory}/b/two", [None]))


if __name__ == "__main__":
    main()
