"""python3 -m isocost.tokenize over small shards."""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

import isocost
from support import PROGRAM, TIMEOUT, main, png

HAS_NEEDED = all(map(importlib.util.find_spec, ("tokenizers", "jinja2")))
if HAS_NEEDED:
    import model_directories as models
    from isocost.tokens.model_tokenizer import ModelTokenizer
    from isocost.tokens.recorded_options import TokenOptions, read_options
    from isocost.tokens.token_pass import make_missing
    from isocost.tokens.workers import Settings

SHARDS = 3
PICTURE = png(28, 28, 0)
# A template that does not end within the time of a test for long answers, as those of the data set.
ENDLESS = ("{% if messages[-1].content | string | length > 100 %}{% for a in range(90000) %}{% for b in range(90000) %}"
           "{% endfor %}{% endfor %}{% endif %}")
BLOCKED_S = 30.0


def turns(question, answer):
    return json.dumps({"messages": [{"role": "user", "content": question},
                                    {"role": "assistant", "content": answer}]}).encode()


def samples_of(shard):
    """{key: {extension: bytes}}: a text, a conversation with a picture, a caption, a bad sample."""
    picture = [{"type": "image"}, {"type": "text", "text": "What is it? 😀"}]
    return {"a": {"json": turns(f"question {shard}", "answer " * 50)},
            "b": {"json": turns(picture, "A square."), "png": PICTURE},
            "c": {"png": PICTURE, "txt": b"A caption."},
            "d": {"json": turns("Where is the picture?", "There is none."), "png": PICTURE}}


def write_shard(file, samples):
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as out:
        for key, members in samples.items():
            for extension, content in members.items():
                entry = tarfile.TarInfo(f"{key}.{extension}")
                entry.size = len(content)
                out.addfile(entry, io.BytesIO(content))


@unittest.skipUnless(HAS_NEEDED, "tokenizers or jinja2 is not installed: ./run test --torch2 has them")
class TokenPass(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-tokens-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.model = models.make(cls.directory / "model")
        cls.endless = models.make(cls.directory / "endless", template=ENDLESS)

    def setUp(self):
        self.data = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        for shard in range(SHARDS):
            write_shard(self.data / f"{shard}.tar", samples_of(shard))
        self.index = pathlib.Path(tempfile.mkdtemp(dir=self.directory))

    def command(self, *arguments, model=None):
        return [sys.executable, "-B", "-m", "isocost.tokenize", str(self.data), "--model", str(model or self.model),
                "--index-dir", str(self.index), *map(str, arguments)]

    def tokenize(self, *arguments, status=0, model=None):
        """Returns the output of the command: the summary, or the message on stderr."""
        run = subprocess.run(self.command(*arguments, model=model), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertNotIn("Traceback", run.stderr)
        if status:
            self.assertEqual(run.stdout, "")
            return run.stderr
        self.assertEqual(run.stderr, "")
        return json.loads(run.stdout) if "--json" in arguments else run.stdout

    def opened(self, **options):
        tokenizer = ModelTokenizer(self.model, **options)
        settings = Settings(str(self.data), str(self.index), str(self.model),
                            TokenOptions(tokenizer.options.labels, tokenizer.options.caption_template))
        return settings.open()

    def test_each_shard_is_tokenized_once(self):
        found = self.tokenize("--json")
        self.assertEqual((found["shards"], found["tokenized_shards"], found["samples"], found["bad_samples"]),
                         (SHARDS, SHARDS, 4 * SHARDS, SHARDS))
        self.assertEqual(sorted(found["reasons"]), [
            f"{shard}.tar/d: the conversation has 0 image placeholders, and the sample has 1 image part"
            for shard in range(SHARDS)])
        self.assertEqual([shard[1:] for shard in self.opened().shards], [(4, True, True, "", "")] * SHARDS)
        again = self.tokenize("--json")
        self.assertEqual((again["shards"], again["tokenized_shards"], again["samples"]), (SHARDS, 0, 0))
        write_shard(self.data / "1.tar", {"new": {"json": turns("a", "b")}})
        changed = self.tokenize("--json")
        self.assertEqual((changed["tokenized_shards"], changed["samples"]), (1, 1))

    def test_tokens_are_those_of_the_tokenizer(self):
        found = self.tokenize("--json", "--workers", "2")
        tokenizer = ModelTokenizer(self.model)
        self.assertEqual(found["fingerprint"], f"{tokenizer.fingerprint:016x}")
        given = []
        for shard in range(SHARDS):
            for key, members in list(samples_of(shard).items())[:3]:
                texts = [members["txt"].decode()] if "txt" in members else []
                media = ["image"] if "png" in members else []
                given.append(tokenizer.conversation(key, members.get("json"), texts, media))
        tokens = tokenizer.encode(given)
        self.assertEqual(found["tokens"], sum(len(one.ids) for one in tokens))
        self.assertEqual(found["label_tokens"], sum(sum(one.labels) for one in tokens))

    def delivered(self, data):
        """Returns token ids and positions of labels of each sample, in the order of the data."""
        with isocost.DataLoader(data, model=self.model, global_batch_size=1, microbatches=1, epochs=1, shuffle=False,
                                node=isocost.NodeOptions(index_dir=self.index)) as loader:
            return [(each["input_ids"].tolist(), each["labels"].tolist(), each.sample_keys) for each in loader]

    def test_records_have_the_tokens_of_their_shards(self):
        picture = self.data / "picture.png"
        picture.write_bytes(PICTURE)
        asked = [{"type": "image", "image": "picture.png"}, {"type": "text", "text": "What is it? 😀"}]
        forms = {"messages": [{"id": "a", "messages": [{"role": "user", "content": asked},
                                                       {"role": "assistant", "content": "A square."}]},
                              {"id": "b", "messages": json.loads(turns("Why?", "So."))["messages"]}],
                 "llava": [{"id": "a", "image": "picture.png",
                            "conversations": [{"from": "human", "value": "<image>\nWhat is it?"},
                                              {"from": "gpt", "value": "A square."}]}],
                 "captions": [{"id": "a", "image": "picture.png", "caption": "A caption."},
                              {"id": "b", "image": "picture.png", "caption": "Größe 😀"}]}
        for form, records in forms.items():
            file = self.data / f"{form}.jsonl"
            file.write_text("".join(json.dumps(record) + "\n" for record in records))
            shards = self.data / f"{form}-shards"
            subprocess.run([PROGRAM, "make-shards", file, shards], check=True, capture_output=True, timeout=TIMEOUT)
            in_place, packed = self.delivered(file), self.delivered(shards)
            self.assertEqual([sample[:2] for sample in in_place], [sample[:2] for sample in packed], form)
            self.assertEqual([sample[2] for sample in in_place],
                             [[f"{form}.jsonl-000000/{record['id']}"] for record in records])

    def test_other_options_make_other_tokens(self):
        first = self.tokenize("--json")
        options = ("--json", "--labels", "all", "--caption-template", "<media>What?")
        self.assertIn("the tokens of 0.tar were made with the default options, and now --labels all --caption-template "
                      "'<media>What?' would be used", self.tokenize(*options, status=1))
        other = self.tokenize(*options, "--force")
        self.assertEqual(other["tokenized_shards"], SHARDS)
        for again in (options, options[:3], ("--json",)):
            self.assertEqual(self.tokenize(*again)["fingerprint"], other["fingerprint"])
        self.assertNotEqual(first["fingerprint"], other["fingerprint"])
        self.assertGreater(other["label_tokens"], first["label_tokens"])

    def settings(self, model):
        return Settings(str(self.data), str(self.index), str(model))

    def changed_model(self, **values):
        """A model of its own, whose config.json has these values."""
        model = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        shutil.copytree(self.model, model, dirs_exist_ok=True)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, **values}))
        return model

    def test_a_loader_makes_stale_tokens_anew_and_says_why(self):
        model = self.changed_model()
        with silent(self):
            make_missing(self.settings(model), 1)
            make_missing(self.settings(model), 1)
        config = json.loads((model / "config.json").read_text())
        number = config["image_token_id"]
        other = self.changed_model(image_token_id=config["video_token_id"], video_token_id=number)
        with self.assertLogs("isocost", "WARNING") as logged:
            make_missing(self.settings(other), 1)
        self.assertEqual(logged.output, [
            f"WARNING:isocost:{self.data}: the tokens of {SHARDS} of {SHARDS} shards were made with other placeholders "
            f"of media or another model_type in config.json; they are made anew for {other}, with the default options"])
        shards = self.settings(other).open().shards
        self.assertEqual([shard[2:] for shard in shards], [(True, True, "", "")] * SHARDS)
        stale = self.settings(model).open().shards
        self.assertEqual({shard[2:4] for shard in stale}, {(False, False)})

    def test_a_setting_that_no_node_takes_replaces_no_tokens(self):
        with unittest.mock.patch("isocost.tokens.token_pass.make_missing") as made, \
                self.assertRaisesRegex(ValueError, "on_long: 'cut' is not one of"):
            isocost.DataLoader(self.data, model=self.changed_model(), global_batch_size=1, on_long="cut")
        made.assert_not_called()

    def test_a_loader_says_what_changed(self):
        model = self.changed_model()
        self.tokenize("--labels", "last", model=model)
        with open(model / "chat_template.jinja", "a", encoding="utf-8") as template:
            template.write("{# changed #}")
        with self.assertLogs("isocost", "WARNING") as logged:
            make_missing(self.settings(model), 1)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("were made with another chat template, and with --labels last; they are made anew for "
                      f"{model}, with --labels last", logged.output[0])
        self.assertEqual({shard[2:] for shard in self.opened(labels="last").shards}, {(False, False, "were made with "
                         "another chat template, and with --labels last", "--labels last")})
        settings = self.settings(model)._replace(options=TokenOptions("last"))
        self.assertEqual({shard[2:] for shard in settings.open().shards}, {(True, True, "", "--labels last")})
        (file,) = self.index.glob("*/0.tar.tokens")
        file.write_bytes(file.read_bytes()[:8] + b"\3" + file.read_bytes()[9:])
        with self.assertLogs("isocost", "WARNING") as logged:
            make_missing(self.settings(model), 1)
        self.assertIn(f"the tokens of 1 of {SHARDS} shards cannot be read: of version 3", logged.output[0])
        with silent(self):
            make_missing(self.settings(model), 1)

    def test_options_stay_for_new_shards_and_other_models(self):
        self.tokenize("--labels", "last")
        write_shard(self.data / "new.tar", samples_of(7))
        with silent(self):
            make_missing(self.settings(self.model), 1)
        self.assertEqual({shard[2:] for shard in self.opened(labels="last").shards},
                         {(True, True, "", "--labels last")})
        model = self.changed_model(vocab_size=7000)
        with open(model / "chat_template.jinja", "a", encoding="utf-8") as template:
            template.write("{# changed #}")
        self.tokenize(model=model)
        self.assertEqual([shard[5] for shard in self.settings(model).open().shards], ["--labels last"] * (SHARDS + 1))

    def test_tokens_of_several_options_are_refused_until_one_is_chosen(self):
        self.tokenize("--labels", "last")
        (kept,) = self.index.glob("*/0.tar.tokens")
        content = kept.read_bytes()
        self.tokenize("--labels", "all", "--force")
        kept.write_bytes(content)
        both = "the tokens of 0.tar were made with --labels last, and those of 1.tar with --labels all: choose with"
        self.assertIn(both, self.tokenize(status=1))
        with self.assertRaisesRegex(ValueError, both):
            make_missing(self.settings(self.model), 1)
        self.assertEqual(self.tokenize("--json", "--labels", "all", "--force")["tokenized_shards"], 1)

    def test_keys_of_turns_that_no_model_sees_are_named_once(self):
        given = json.loads(turns("a", "b"))
        given["messages"][0]["train"] = True
        given["messages"][1]["thought"] = "hm"
        for shard in range(SHARDS):
            write_shard(self.data / f"{shard}.tar", {"a": {"json": json.dumps(given).encode()}})
        wanted = (f"{self.data}: no model sees 'thought' in turns of the assistant of 3 samples, 'train' in turns of "
                  "the user of 3 samples; docs/models/tokens.md says what is read")
        run = subprocess.run(self.command("--json", "--workers", "2"), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(run.stderr, f"python3 -m isocost.tokenize: {wanted}\n")
        self.assertEqual(json.loads(run.stdout)["unread_keys"], [
            {"key": "thought", "in": "assistant", "samples": 3}, {"key": "train", "in": "user", "samples": 3}])
        with silent(self):
            make_missing(self.settings(self.model), 1)
        shutil.rmtree(self.index)
        with self.assertLogs("isocost", "WARNING") as logged:
            make_missing(self.settings(self.model), 1)
        self.assertEqual(logged.output, [f"WARNING:isocost:{wanted}"])

    def test_a_directory_that_no_loader_could_use_is_refused_before_anything_is_read(self):
        without = self.changed_model()
        (without / "preprocessor_config.json").unlink()
        for model, wanted in ((self.changed_model(model_type="foo"), 'config.json: model_type is "foo", for which'),
                              (self.changed_model(image_token_id=None), "config.json: image_token_id is null"),
                              (without, "neither preprocessor_config.json nor processor_config.json")):
            message = self.tokenize(status=1, model=model)
            self.assertIn(wanted, message)
            served = subprocess.run([PROGRAM, "serve", "--data", self.data, "--model", model], capture_output=True,
                                    text=True, timeout=TIMEOUT)
            self.assertEqual(served.returncode, 2, served.stderr)
            self.assertIn(message.partition(": ")[2].strip(), served.stderr)
        self.assertEqual(list(self.index.iterdir()), [])

    def test_a_data_set_without_a_usable_sample_fails(self):
        for shard in range(SHARDS):
            write_shard(self.data / f"{shard}.tar", {"d": samples_of(shard)["d"]})
        for tokenized in (SHARDS, 0):  # A second pass finds the same.
            run = subprocess.run(self.command("--json"), capture_output=True, text=True, timeout=TIMEOUT)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertEqual(json.loads(run.stdout)["tokenized_shards"], tokenized)
            self.assertIn(f"{self.data}: no usable sample: none has tokens of {self.model}", run.stderr)
        write_shard(self.data / "0.tar", samples_of(0))
        self.assertEqual(self.tokenize("--json")["bad_samples"], 1)

    def test_options_are_written_as_on_a_command_line(self):
        given = TokenOptions("last", "<media>\nWas für\x7f?")
        self.assertEqual(given.written(), r"--labels last --caption-template '<media>\nWas für\x7f?'")
        self.assertEqual(TokenOptions().written(), "")
        for each in (given, TokenOptions("all", "<media>"), TokenOptions("assistant", "--labels last<media>'\""),
                     TokenOptions("assistant", "<media>")):
            self.assertEqual(read_options(each.written()), each)
        with self.assertRaisesRegex(ValueError, "made with '--other 1', which this version"):
            read_options("--other 1")

    def test_the_summary_for_people(self):
        lines = self.tokenize().splitlines()
        self.assertEqual(lines[0], f"tokenized {SHARDS} shards")
        self.assertRegex(lines[1], rf"{4 * SHARDS} samples, \d+ tokens, \d+ label tokens in \d+\.\d s")
        self.assertEqual(lines[3], f"{SHARDS} bad samples:")
        self.assertRegex(lines[4], r"  \d\.tar/d: the conversation has 0 image placeholders")
        self.assertEqual(self.tokenize().splitlines()[0],
                         f"tokenized 0 of {SHARDS} shards; the others were current")

    def test_arguments_and_errors(self):
        self.assertIn("--workers 0: must be 1 or more", self.tokenize("--workers", 0, status=2))
        self.assertIn("write <media> once", self.tokenize("--caption-template", "x", status=2))
        self.assertIn("invalid choice: 'some'", self.tokenize("--labels", "some", status=2))
        self.assertRegex(self.tokenize(status=1, model=self.directory / "none"),
                         r"^python3 -m isocost.tokenize: .*none: there is no such directory")
        shutil.rmtree(self.data)
        self.assertIn(str(self.data), self.tokenize(status=1))
        run = subprocess.run(self.command("--help"), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(run.returncode, 0)
        self.assertIn("examples:", run.stdout)

    # Passes that never end.

    def start(self):
        """A pass that is within its first shards, and the ids of the processes that tokenize them."""
        process = subprocess.Popen(self.command("--workers", 2, model=self.endless), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(end_group, process)
        deadline = time.monotonic() + BLOCKED_S
        workers = []
        while len(workers) < 2:
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.02)
            workers = [child for child in children(process.pid) if "workers.work" in command_line(child)]
        return process, workers

    def ended(self, processes):
        deadline = time.monotonic() + BLOCKED_S
        while any("workers.work" in command_line(process) for process in processes):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_interrupts_end_all_processes_and_leave_nothing(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process, workers = self.start()
            process.send_signal(number)
            _output, errors = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, status, errors)
            self.assertNotIn("Traceback", errors)
            self.ended(workers)
            self.assertEqual({file.suffix for file in self.index.glob("*/*")}, {".idx"})

    def test_a_killed_pass_takes_its_processes_along_and_blocks_no_other(self):
        process, workers = self.start()
        process.kill()
        process.communicate(timeout=TIMEOUT)
        self.ended(workers)
        run = subprocess.run(self.command("--json"), capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(json.loads(run.stdout)["tokenized_shards"], SHARDS)
        self.assertRegex(run.stderr, rf"process {process.pid} on host .*ended before it was done; this process goes on")

    def test_a_killed_worker_is_an_error(self):
        process, workers = self.start()
        os.kill(workers[0], signal.SIGKILL)
        _output, errors = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(errors, "a tokenizing process ended with status -9: it was killed")
        self.ended(workers)

    def test_a_pass_waits_for_another_one_and_takes_over_when_it_is_killed(self):
        process, _workers = self.start()
        waiting = subprocess.Popen(self.command("--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end_group, waiting)
        self.assertRegex(waiting.stderr.readline(), rf"the tokens of {self.data}: process {process.pid} on host .*"
                                                    "makes them; waiting until it has ended")
        process.kill()
        process.wait()
        output, errors = waiting.communicate(timeout=TIMEOUT)
        self.assertRegex(errors, rf"process {process.pid} on host .*ended before it was done; this process goes on")
        self.assertEqual(json.loads(output)["tokenized_shards"], SHARDS)

    def test_an_interrupt_ends_a_pass_that_waits(self):
        process, _workers = self.start()
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            waiting = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(end_group, waiting)
            self.assertIn("waiting until it has ended", waiting.stderr.readline())
            waiting.send_signal(number)
            _output, errors = waiting.communicate(timeout=TIMEOUT)
            self.assertEqual(waiting.returncode, status, errors)
            self.assertNotIn("Traceback", errors)
        self.assertIsNone(process.poll())

    def test_passes_that_begin_together_make_each_shard_once(self):
        passes = [subprocess.Popen(self.command("--json", "--workers", 1), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True) for _i in range(3)]
        for each in passes:
            self.addCleanup(end_group, each)
        found = [each.communicate(timeout=TIMEOUT) for each in passes]
        self.assertEqual([each.returncode for each in passes], [0, 0, 0], found)
        self.assertEqual(sum(json.loads(output)["tokenized_shards"] for output, _errors in found), SHARDS)
        self.assertEqual({file.suffix for file in self.index.glob("*/*")}, {".idx", ".tokens"})


@contextlib.contextmanager
def silent(test):
    """The block logs nothing."""
    with unittest.mock.patch("isocost.tokens.token_pass._LOG") as log:
        yield
    test.assertEqual(log.mock_calls, [])


def end_group(process):
    """Ends a process and those that it started, and reads what they wrote."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def children(process):
    with contextlib.suppress(OSError):
        return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def command_line(process):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/cmdline").read_text()
    return ""


if __name__ == "__main__":
    main()
