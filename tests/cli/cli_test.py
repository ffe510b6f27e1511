"""The programs as a user types them: help, exit status, messages, signals. Arguments: isocost, isocost-lab."""

import base64
import io
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_server import FaultServer  # noqa: E402

LAB = sys.argv.pop()
PROGRAM = sys.argv.pop()
COMMANDS = ["serve", "index", "check", "make-shards", "tokenize", "keygen", "cache ls", "cache rm", "cache verify",
            "data ls", "data profile", "data show", "data step", "model profile", "predict", "plan",
            "layout fingerprint", "layout receiver", "top"]
LAB_COMMANDS = ["simulate", "balance", "emulate"]
SECONDS = 30


def run(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=SECONDS)


def isocost(*arguments):
    return run(PROGRAM, *arguments)


def isocost_lab(*arguments):
    return run(LAB, *arguments)


def gray_png(side):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side + 1) * side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class Help(unittest.TestCase):
    def test_lists_every_command(self):
        for program, commands in ((PROGRAM, COMMANDS), (LAB, LAB_COMMANDS)):
            shown = run(program, "--help")
            self.assertEqual(shown.returncode, 0)
            for command in commands:
                self.assertIn(f"\n  {command.split()[0]} ", shown.stdout)

    def test_every_command_has_an_example(self):
        for program, commands in ((PROGRAM, COMMANDS), (LAB, LAB_COMMANDS)):
            for command in commands:
                shown = run(program, *command.split(), "--help")
                self.assertEqual(shown.returncode, 0, command)
                self.assertIn(f"  {pathlib.Path(program).name} {command} ", shown.stdout)

    def test_every_command_has_the_same_exit_statuses(self):
        for program, commands in ((PROGRAM, ["", *COMMANDS]), (LAB, ["", *LAB_COMMANDS])):
            for command in commands:
                shown = run(program, *command.split(), "--help").stdout
                self.assertEqual(shown.count("Exit status: 0 done; 1 failed, or found something bad; 2 usage error"), 1)
                self.assertEqual(shown.count("xit status"), 1, command)

    def test_a_range_is_shown(self):
        self.assertIn("--workers INT:0 to 1024=0", isocost("index", "--help").stdout)

    def test_an_unknown_command_is_named(self):
        for arguments, says in (
            (["surve", "--ranks", "2"], "isocost: there is no command 'surve'; isocost --help lists them"),
            (["--ranks", "2"], "isocost: there is no flag '--ranks'; isocost --help lists them"),
            (["data", "profil"], "isocost: there is no command 'profil'; isocost data --help lists them"),
        ):
            refused = isocost(*arguments)
            self.assertEqual((refused.returncode, refused.stderr), (2, says + "\n"))
        self.assertIn("isocost-lab: there is no command 'serve'", isocost_lab("serve").stderr)

    def test_what_is_wrong_with_arguments_is_told_in_one_way(self):
        for arguments, says in (
            (["check"], "DATA is required; isocost check --help explains the call"),
            (["model", "profile", "a", "b"],
             "'b' is an argument too many; isocost model profile --help explains the call"),
            (["index", "a", "--frobnicate", "x"], "there is no flag '--frobnicate'; isocost index --help lists them"),
            (["serve", "--shards", "data"], "there is no flag '--shards'; isocost serve calls it --data"),
            (["data"], "a command is missing; isocost data --help lists them"),
        ):
            refused = isocost(*arguments)
            self.assertEqual((refused.returncode, refused.stderr), (2, f"isocost: {says}\n"))

    def test_a_command_of_the_lab_is_named(self):
        for command in LAB_COMMANDS:
            refused = isocost(command, "--json")
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"'{command}' is a command of another program: isocost-lab {command}", refused.stderr)

    def test_wrong_usage_is_status_2(self):
        for arguments in ([], ["surve"], ["serve", "--rnaks", "2"], ["serve", "--data", "x"], ["check"], ["keygen"],
                          ["data"], ["model"]):
            self.assertEqual(isocost(*arguments).returncode, 2, arguments)
        for arguments in ([], ["simulate"], ["balance", "--bins", "2"]):
            self.assertEqual(isocost_lab(*arguments).returncode, 2, arguments)

    def test_both_programs_tell_their_version(self):
        self.assertRegex(isocost("--version").stdout, r"^isocost \d+\.\d+\.\d+\n$")
        self.assertRegex(isocost_lab("--version").stdout, r"^isocost-lab \d+\.\d+\.\d+\n$")

    def test_components_are_the_libraries_with_their_versions(self):
        version, *lines = isocost("--version", "--components").stdout.splitlines()
        self.assertRegex(version, r"^isocost \d")
        components = dict(line.split() for line in lines)
        for name, package in (("FFmpeg", "libavutil57"), ("libtiff", "libtiff6"), ("ZeroMQ", "libzmq5")):
            installed = subprocess.run(["dpkg-query", "-W", "-f", "${source:Upstream-Version}", package], text=True,
                                       capture_output=True, check=True).stdout
            self.assertEqual(components[name].split("-")[0], installed.split("+")[0].split(":")[-1], name)
        self.assertIn("--components requires --version", isocost("--components").stderr)


class WithShards(unittest.TestCase):
    def setUp(self):
        self._directory = tempfile.TemporaryDirectory(prefix="isocost-cli-")
        self.directory = pathlib.Path(self._directory.name)
        self.addCleanup(self._directory.cleanup)
        self.shards = self.directory / "shards"
        manifest = self.directory / "manifest.jsonl"
        with manifest.open("w") as out:
            for i in range(40):
                sample = {"key": f"s{i:03}", "parts": [{"name": "txt", "text": f"sample {i}"}]}
                out.write(json.dumps(sample) + "\n")
        made = isocost("make-shards", manifest, self.shards, "--samples-per-shard", "16", "--json")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(json.loads(made.stdout)["samples"], 40)

    def serve(self, *arguments, bind="tcp://127.0.0.1:*"):
        """A running node and its endpoint."""
        node = subprocess.Popen(
            [PROGRAM, "serve", "--data", self.shards, "--bind", bind, "--bad-samples-file",
             self.directory / "bad.jsonl", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        line = node.stdout.readline()
        self.assertTrue(line.startswith("listening on tcp://127.0.0.1:"), line)
        return node, line.split()[-1]


class MakeShards(WithShards):
    def test_a_line_that_is_no_json_is_named(self):
        manifest = self.directory / "broken.jsonl"
        manifest.write_text("{\n")
        failed = isocost("make-shards", manifest, self.directory / "more")
        self.assertEqual((failed.returncode, failed.stdout), (1, ""))
        self.assertIn(f"{manifest}:1", failed.stderr)

    def test_conversations_are_followed_by_the_command_that_comes_next(self):
        records, shards = self.directory / "chats.jsonl", self.directory / "chats"
        turns = [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]
        records.write_text("".join(json.dumps({"conversations": turns, **more}) + "\n"
                                   for more in ({}, {}, {"text": "which the recipe native28 reads"})))
        made = isocost("make-shards", records, shards)
        self.assertEqual(made.returncode, 0)
        self.assertNotIn("conversation", made.stderr)  # It warns of nothing that the command mends.
        self.assertEqual(made.stdout.splitlines()[-1],
                         f"2 conversations: next, make tokens with isocost tokenize {shards} --model DIR")
        made = isocost("make-shards", records, shards, "--force", "--json")
        self.assertEqual(json.loads(made.stdout)["conversations"], 2)

    def test_counts_have_their_noun_in_the_right_number(self):
        manifest = self.directory / "one.jsonl"
        manifest.write_text('{"key": "one", "parts": [{"name": "txt", "text": "alone"}]}\n')
        one = self.directory / "one"
        self.assertRegex(isocost("make-shards", manifest, one).stdout, r"^1 sample, \S+ MB in 1 shard\n$")
        self.assertRegex(isocost("index", one).stdout, r"^1 shard, 1 sample, 0 bad, ")
        self.assertRegex(isocost("check", one).stdout, r"^1 shard, 1 good sample, 1 part, ")
        self.assertRegex(isocost("check", self.shards).stdout, r"^3 shards, 40 good samples, 40 parts, ")


    def test_what_no_model_sees_is_named(self):
        captions = self.directory / "captions.jsonl"
        (self.directory / "media").mkdir()
        picture = base64.b64decode("R0lGODlhAQABAIAAAAAAAAAAACwAAAAAAQABAAACAkQBADs=")
        (self.directory / "media" / "a.gif").write_bytes(picture)
        captions.write_text('{"file_name": "a.gif", "text": "black", "url": "x"}\n' * 2)
        arguments = ("make-shards", captions, self.directory / "more", "--force")
        self.assertIn("a.gif", isocost(*arguments).stderr)
        made = isocost(*arguments, "--media-root", self.directory / "media")
        self.assertRegex(made.stdout, r"^not read by any recipe: JSON key 'url' in 2 samples\n2 samples, ")
        made = isocost(*arguments, "--media-root", self.directory / "media", "--json")
        self.assertEqual(json.loads(made.stdout)["unread"], [{"kind": "JSON key", "name": "url", "count": 2}])
        self.assertEqual(isocost(*arguments, "--class-from-directory").returncode, 2)
        # Given as a source, the directory's files that no model sees are left out.
        (self.directory / "media" / "a.psd").write_bytes(b"x")
        (self.directory / "media" / "b.psd").write_bytes(b"x")
        made = isocost("make-shards", self.directory / "media", self.directory / "tree")
        self.assertRegex(made.stdout, r"^left out: 1 file with the extension 'psd'\n"
                                      r"not read by any recipe: part 'psd' in 1 sample\n1 sample, ")

    def test_each_start_names_what_no_model_sees(self):
        shards = self.directory / "unread"
        shards.mkdir()
        picture = base64.b64decode("R0lGODlhAQABAIAAAAAAAAAAACwAAAAAAQABAAACAkQBADs=")
        parts = {"a.jpg": picture, "a.txt": b"a", "a.cls": b"1", "a.json": b'{"score": NaN, "url": null}',
                 "b.jxl": b"none", "b.txt": b"b"}
        with tarfile.open(shards / "a.tar", "w") as tar:
            for name, body in parts.items():
                member = tarfile.TarInfo(name)
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))
        named = "unread: no model sees 1 part 'cls', 'score' in the JSON of 1 sample; docs/formats.md says what is read"
        for command in ("index", "check", "index"):
            done = isocost(command, shards)
            self.assertEqual(done.returncode, 1)
            self.assertIn("leave such parts out with --ignore-parts jxl", done.stdout)
            self.assertEqual(done.stderr.count(named), 1)
            self.assertIn("1 of 1 .jpg are GIF", done.stderr)
            done = isocost(command, shards, "--ignore-parts", "jxl", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["remarks"], [
                {"kind": "format", "name": "jpg", "detail": "GIF", "count": 1, "of": 1},
                {"kind": "part", "name": "cls", "count": 1}, {"kind": "ignored part", "name": "jxl", "count": 1},
                {"kind": "JSON key", "name": "score", "count": 1}])


class Predict(WithShards):
    def test_a_sample_by_key_and_by_its_load_are_the_same(self):
        by_key = isocost("predict", "--data", self.shards, "--sample", "s007", "--json")
        self.assertEqual(by_key.returncode, 0, by_key.stderr)
        llm = json.loads(by_key.stdout)["modules"]["llm"]
        self.assertEqual(llm["units"], len("sample 7") + 2)  # BOS and EOS
        self.assertEqual(llm["origin"], "stated")
        self.assertAlmostEqual(sum(llm["terms_s"].values()), llm["seconds"], 12)
        by_load = isocost("predict", "--llm", llm["units"], "--json")
        self.assertEqual(json.loads(by_load.stdout)["modules"]["llm"], llm)

    def test_a_sample_is_explained_part_by_part(self):
        files = self.directory / "files"
        files.mkdir()
        (files / "one.0.png").write_bytes(gray_png(100))
        (files / "one.1.png").write_bytes(gray_png(28))
        (files / "one.txt").write_text("both")
        shards = self.directory / "more"
        self.assertEqual(isocost("make-shards", files, shards).returncode, 0)
        command = ("predict", "--data", shards, "--sample", "one")
        told = json.loads(isocost(*command, "--json").stdout)
        sample = told["sample"]
        parts = {part["name"]: part for part in sample["parts"]}
        self.assertEqual((sample["key"], sample["tokens"], sample["other_tokens"]), ("one", 16 + 1 + 4 + 2, 2))
        self.assertEqual((parts["0.png"]["width"], parts["0.png"]["rows"], parts["0.png"]["tokens"]), (100, 8, 16))
        self.assertEqual(parts["1.png"]["vision"], {"sequences": 1, "units": 4})
        self.assertEqual((parts["txt"]["tokens"], sample["label_tokens"]), (4, 5))  # EOS is a label, too
        self.assertEqual(told["modules"]["vision"]["units"], 64 + 4)
        table = isocost(*command).stdout
        self.assertRegex(table, r"(?m)^0\.png +100x100 +8x8 patches +16$")
        self.assertRegex(table, r"(?m)^begin and end +2$")
        self.assertRegex(table, r"(?m)^sample +5 label tokens +23$")

    def test_what_cannot_be_is_refused(self):
        for arguments in ([], ["--llm", "0"], ["--llm", "5x"], ["--vision", "16777217"], ["--sample", "s007"],
                          ["--data", self.shards], ["--data", self.shards, "--sample", "s1", "--llm", "3"]):
            refused = isocost("predict", *arguments)
            self.assertEqual(refused.returncode, 2, arguments)
        for arguments in (["--llm", ",".join(["16777216"] * 3), "--in-flight", "1000000"],
                          ["--llm", ",".join(["16777216"] * 65)]):
            refused = isocost("predict", *arguments)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""), arguments)
            self.assertIn("llm: ", refused.stderr)
        twice = self.directory / "twice"
        twice.mkdir()
        for name in ("a.tar", "b.tar"):
            (twice / name).write_bytes((self.shards / "shard-000000.tar").read_bytes())
        ambiguous = isocost("predict", "--data", twice, "--sample", "s007")
        self.assertEqual(ambiguous.returncode, 2)
        self.assertIn("2 samples have the key 's007': give one as shard/key, such as a.tar/s007 or b.tar/s007",
                      ambiguous.stderr)
        named = isocost("predict", "--data", twice, "--sample", "b.tar/s007", "--json")
        self.assertEqual(json.loads(named.stdout)["sample"]["shard"], "b.tar")
        missing = isocost("predict", "--data", self.shards, "--sample", "nobody")
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn("'nobody'", missing.stderr)


    def test_a_frozen_module_and_the_load_where_memory_ran_out_are_told(self):
        none = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}

        def point(units, backward_s):
            return {"sequences": 1, "units": units, "units_squared": units * units, "forward_s": 1e-6 * units,
                    "backward_s": backward_s * units, "spread": 0, "peak_bytes": 100 * units}

        full = {"sequences": 4, "units": 4096, "units_squared": 4096 * 1024}
        architecture = {"name": "small", "layers": 2, "width": 64, "heads": 4, "key_value_width": 64, "mlp": 256,
                        "gated": False, "embedding_parameters": 0, "head_flop_per_unit": 0}
        measured = {"architecture": architecture, "out_of_memory": full}
        modules = {"vision": {**measured, "points": [point(units, 0) for units in (64, 1024)]}, "audio": none,
                   "llm": {**measured, "points": [point(units, 2e-6) for units in (64, 1024)]}}
        file = self.directory / "measured.json"
        file.write_text(json.dumps({"version": 1, "unit": "seconds", "modules": modules}), encoding="utf-8")

        def predict(length, *more):
            options = ("predict", "--profile", file, "--vision", length, "--llm", length, *more)
            told = json.loads(isocost(*options, "--json").stdout)["modules"]
            return told["vision"], told["llm"], isocost(*options).stdout

        vision, llm, table = predict("1024x3")
        self.assertEqual((vision["frozen"], llm["frozen"]), (True, False))
        self.assertEqual((vision["bytes"]["gradients"], vision["bytes"]["optimizer"]), (0, 0))
        self.assertEqual(vision["bytes"]["weights"], llm["bytes"]["weights"])
        self.assertGreater(llm["bytes"]["optimizer"], 0)
        self.assertEqual(llm["bytes"]["activations_of_max_memory"], 100 * 3072)
        self.assertEqual(llm["out_of_memory_at"], full)
        self.assertFalse(llm["beyond_memory"])
        self.assertIn("vision is frozen", table)
        self.assertNotIn("memory ran out", table)
        for length in ("1024x4", "2048x3"):
            vision, llm, table = predict(length)
            self.assertTrue(vision["beyond_memory"] and llm["beyond_memory"], length)
            self.assertIn("llm is at or beyond the load where memory ran out while profiling: 4 sequences, 4096", table)
        vision, llm, _ = predict("1024x1", "--in-flight", "4")
        self.assertEqual((vision["beyond_memory"], llm["beyond_memory"]), (False, True))


class ModelProfile(unittest.TestCase):
    def test_an_output_that_cannot_be_is_refused_before_measuring(self):
        for out in ("/nonexistent/p.json", "/", ""):
            refused = isocost("model", "profile", "--example", "--output", out)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("--output", refused.stderr)

    def test_budgets_have_units(self):
        # Refused for its output, a budget was understood.
        for budget in ("30", "30s", "5m", "1h", "0.5 h"):
            understood = isocost("model", "profile", "--example", "--budget", budget, "--output", "/nonexistent/p.json")
            self.assertIn("/nonexistent/p.json", understood.stderr, budget)
        for budget in ("1d", "0s", "-5m", "nan", "inf", "200h", ""):
            refused = isocost("model", "profile", "--example", f"--budget={budget}", "--output", "/nonexistent/p.json")
            self.assertEqual(refused.returncode, 2, budget)
            self.assertIn("--budget", refused.stderr, budget)

    def test_an_older_profile_is_kept(self):
        with tempfile.TemporaryDirectory(prefix="isocost-cli-") as directory:
            old = pathlib.Path(directory) / "old.json"
            old.write_text("old")
            for model in ("--example", directory):
                refused = isocost("model", "profile", model, "--output", old)
                self.assertEqual(refused.returncode, 2)
                self.assertIn("old.json exists: --force replaces it", refused.stderr)
            self.assertEqual(old.read_text(), "old")

    def test_either_a_directory_or_the_example(self):
        for arguments in ([], ["--example", "/tmp"]):
            refused = isocost("model", "profile", *arguments, "--output", "/tmp/none.json")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("--example", refused.stderr)

    def test_a_directory_without_a_model_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="isocost-cli-") as directory:
            refused = isocost("model", "profile", directory, "--output", f"{directory}/p.json")
            self.assertEqual(refused.returncode, 2)
            self.assertIn(f"{directory}/config.json: no such file", refused.stderr)

    def test_help_tells_the_least_time(self):
        self.assertIn("at least 5 times", isocost("model", "profile", "--help").stdout)


class Check(WithShards):
    def test_all_good_is_status_0(self):
        checked = isocost("check", "--json", self.shards)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertEqual(json.loads(checked.stdout)["bad"], [])

    @unittest.skipIf(subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode,
                     "this container or user may not hide /dev from a process")
    def test_a_root_without_dev_null_is_named(self):
        checked = run("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev && exec "$@"', "sh", PROGRAM, "check",
                      "--isolate", "on", self.shards)
        self.assertNotEqual(checked.returncode, 0)
        self.assertIn("cannot start a decode worker: /dev/null: No such file", checked.stderr)

    def test_a_cut_shard_is_status_1_and_named(self):
        self.assertEqual(isocost("index", self.shards).returncode, 0)
        shard = self.shards / "shard-000001.tar"
        shard.write_bytes(shard.read_bytes()[:3000])
        checked = isocost("check", "--json", self.shards)
        self.assertEqual(checked.returncode, 1, checked.stderr)
        report = json.loads(checked.stdout)
        self.assertEqual(report["bad"], [])
        (broken,) = report["broken"]
        self.assertEqual((broken["shard"], broken["condition"]), ("shard-000001.tar", "damaged"))
        self.assertLess(broken["samples"], broken["samples_when_whole"])
        self.assertEqual(isocost("index", self.shards).returncode, 1)
        for allowed in ("1", "50%"):
            for command in ("check", "index"):
                found = isocost(command, self.shards, "--allow-broken-shards", allowed)
                self.assertEqual(found.returncode, 0, found.stderr)
                self.assertIn("broken  shard-000001.tar: damaged: ", found.stdout)
        self.assertEqual(isocost("check", self.shards, "--allow-broken-shards", "few").returncode, 2)

    def test_truncated_pictures_are_bad_unless_accepted(self):
        shards = self.directory / "truncated"
        shards.mkdir()
        rows = b"".join(b"\0" + bytes(range(90)) for _row in range(30))
        head = struct.pack(">IIBBBBB", 30, 30, 8, 2, 0, 0, 0)
        png = b"\x89PNG\r\n\x1a\n" + b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
            for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")))
        with tarfile.open(shards / "a.tar", "w") as tar:
            for name, body in (("a.png", png[:-60]), ("a.txt", b"a")):
                member = tarfile.TarInfo(name)
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))
        checked = isocost("check", shards)
        self.assertEqual(checked.returncode, 1, checked.stderr)
        self.assertIn("its PNG is cut off", checked.stdout)
        for isolate in ("on", "off"):
            checked = isocost("check", shards, "--truncated", "accept", "--isolate", isolate)
            self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_remarks_of_codecs_and_bytes_behind_the_picture_are_no_fault(self):
        shards = self.directory / "remarks"
        shards.mkdir()
        picture = (pathlib.Path(__file__).parents[1] / "decode/golden/420.avif").read_bytes()
        media = picture.index(b"mdat") - 4
        size = struct.unpack_from(">I", picture, media)[0]
        length = picture.index(struct.pack(">I", size - 8), picture.index(b"iloc"))
        reserved = bytearray(picture)
        reserved[media + 8:media + 8] = b"\x4a\x00"  # A unit of a reserved type, on which dav1d remarks.
        struct.pack_into(">I", reserved, media, size + 2)
        struct.pack_into(">I", reserved, length, size - 6)
        with tarfile.open(shards / "a.tar", "w") as tar:
            for name, body in (("a.avif", bytes(reserved)), ("b.avif", picture + b"\0\0\0"),
                               ("c.avif", picture + b"\0\0\1\0SEFT of a camera")):
                member = tarfile.TarInfo(name)
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))
        with open(self.directory / "log", "wb") as log:  # A worker may write to no file.
            for isolate in ("on", "off"):
                checked = subprocess.run([PROGRAM, "check", shards, "--isolate", isolate], stderr=log,
                                         stdout=subprocess.PIPE, timeout=SECONDS, check=False)
                self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_an_absent_shard_names_the_index_to_delete(self):
        self.assertEqual(isocost("index", self.shards).returncode, 0)
        (self.shards / "shard-000001.tar").unlink()
        checked = isocost("check", self.shards)
        self.assertEqual(checked.returncode, 1, checked.stderr)
        index = self.shards / ".isocost" / "shard-000001.tar.idx"
        self.assertIn(f"or delete {index} if it was meant to go", checked.stdout)
        served = isocost("serve", "--data", self.shards, "--bind", "tcp://127.0.0.1:*", "--ranks", "1",
                         "--bad-samples-file", "")
        self.assertEqual(served.returncode, 1, served.stderr)
        self.assertIn(str(index), served.stderr)
        index.unlink()
        self.assertEqual(isocost("check", self.shards).returncode, 0)

    def test_archives_that_are_not_read_are_status_1_unless_accepted(self):
        (self.shards / "more.tar.xz").write_bytes(b"xz")
        first = self.shards / "shard-000000.tar"
        (self.shards / "train").mkdir()
        (self.shards / "train" / "0.tar").write_bytes(first.read_bytes())
        first.write_bytes(first.read_bytes() + first.read_bytes())
        for command in ("check", "index"):
            found = isocost(command, "--json", self.shards)
            self.assertEqual(found.returncode, 1, found.stderr)
            names = [archive.split(":")[0] for archive in json.loads(found.stdout)["unread_archives"]]
            self.assertEqual(names, ["more.tar.xz", "shard-000000.tar", "train"])
            accepted = isocost(command, self.shards, "--accept-unread-archives", "on")
            self.assertEqual(accepted.returncode, 0, accepted.stderr)

    @staticmethod
    def remove_end_mark(shard):
        members = shard.read_bytes().rstrip(bytes(1))
        shard.write_bytes(members + bytes(-len(members) % 512))

    def test_two_missing_end_marks_are_damaged_shards(self):
        shards = sorted(self.shards.glob("*.tar"))
        for shard in shards[:2]:
            self.remove_end_mark(shard)
        checked = isocost("check", self.shards)
        self.assertEqual(checked.returncode, 1, checked.stdout + checked.stderr)
        self.assertIn(f"broken  {shards[0].name}: damaged: without the mark that ends a tar file, like 2 of the "
                      f"{len(shards)} shards", checked.stdout)
        served = isocost("serve", "--data", self.shards, "--bind", "tcp://127.0.0.1:*", "--ranks", "1",
                         "--bad-samples-file", "")
        self.assertEqual(served.returncode, 1, served.stderr)
        self.assertIn(f"2 of {len(shards)} shards are damaged or lost, allow_broken_shards allows 0", served.stderr)
        allowed = isocost("check", self.shards, "--allow-broken-shards", "2")
        self.assertEqual(allowed.returncode, 0, allowed.stdout + allowed.stderr)

    def test_a_missing_end_mark_alone_is_a_warning(self):
        self.remove_end_mark(self.shards / "shard-000001.tar")
        checked = isocost("check", self.shards)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertIn("warning  shard-000001.tar: without the mark", checked.stdout)

    def test_what_is_only_named_like_a_shard_is_status_1(self):
        (self.shards / "gone.tar").symlink_to("nowhere")
        (self.shards / "folder.tar").mkdir()
        os.mkfifo(self.shards / "pipe.tar")
        checked = isocost("check", "--json", self.shards)
        self.assertEqual(checked.returncode, 1, checked.stderr)
        lost = {entry["shard"]: entry["reason"] for entry in json.loads(checked.stdout)["broken"]}
        self.assertEqual(set(lost), {"gone.tar", "folder.tar", "pipe.tar"})
        self.assertIn("broken link", lost["gone.tar"])

    def test_what_is_bad_is_status_1_everywhere(self):
        for shard in self.shards.glob("*.tar"):
            shard.write_bytes(b"no tar")
        for command in (("check",), ("index",), ("data", "profile")):
            found = isocost(*command, self.shards)
            self.assertEqual(found.returncode, 1, (command, found.stderr))
            self.assertIn("shard-000000.tar", found.stdout + found.stderr)

    def test_data_is_named_by_patterns_and_lists(self):
        for part, numbers in (("en", "01"), ("fr", "2")):
            (self.directory / "parts" / part).mkdir(parents=True)
            for number in numbers:
                (self.directory / "parts" / part / f"{number}.tar").symlink_to(self.shards / "shard-000000.tar")
        pattern = self.directory / "parts/{en,fr}/*.tar"
        found = json.loads(isocost("check", pattern, "--json").stdout)
        self.assertEqual(found["shards"], 3)
        words = sorted((self.directory / "parts/en").glob("*.tar"))
        self.assertEqual(json.loads(isocost("index", *words, "--json").stdout)["shards"], 2, "as a shell expands them")
        shards = self.directory / "parts" / "train.txt"
        shards.write_text("en/0.tar\nfr/2.tar\n")
        self.assertEqual(json.loads(isocost("index", shards, "--json").stdout)["shards"], 2)
        shards.write_text("en/0.tar\nde/2.tgz2\n")
        refused = isocost("index", shards)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("train.txt, line 2: de/2.tgz2: no such file or directory", refused.stderr)
        missing = isocost("check", self.directory / "parts/en/{0..3}.tar")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("lost", missing.stdout)

    def test_a_mixture_is_read_by_all_commands(self):
        (self.directory / "mixture").mkdir()
        mixture = self.directory / "mixture" / "mixture.toml"
        mixture.write_text(f"""
[[source]]
name = "first"
path = "../{self.shards.name}/shard-000000.tar"
[[source]]
name = "second"
path = "../{self.shards.name}/*.tar"
""")
        alone = json.loads(isocost("index", self.shards, "--json").stdout)
        both = json.loads(isocost("check", mixture, "--json").stdout)
        self.assertEqual(both["shards"], alone["shards"] + 1)
        self.assertEqual(both["samples"], alone["samples"] + 16)
        self.assertEqual(json.loads(isocost("index", mixture, "--json").stdout)["samples"], both["samples"])
        profile = json.loads(isocost("data", "profile", mixture, "--json").stdout)
        self.assertEqual(profile["samples"], both["samples"])
        key = isocost("predict", "--data", mixture, "--sample", "nothing")
        self.assertIn("mixture.toml holds no sample with the key 'nothing'", key.stderr)
        mixture.write_text(mixture.read_text() + 'proportions = 1\n')
        refused = isocost("check", mixture)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("mixture.toml:8: proportions: no such key: write proportion", refused.stderr)

    def test_a_file_that_is_no_data_is_named(self):
        other = self.directory / "other.bin"
        other.write_bytes(bytes(range(256)))
        for command in (("check", other), ("index", other), ("data", "profile", other),
                        ("predict", "--sample", "x", "--data", other), ("serve", "--data", other)):
            refused = isocost(*command)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(f"{other}: it is no tar file, no JSON and no text", refused.stderr)

    def test_records_are_read_in_place(self):
        manifest = self.directory / "manifest.jsonl"
        for command in ("index", "check"):
            of_records = json.loads(isocost(command, manifest, "--json").stdout)
            of_shards = json.loads(isocost(command, self.shards, "--json").stdout)
            self.assertEqual(of_records["samples"], 40)
            self.assertEqual(of_records["samples"], of_shards["samples"])
        profiled = isocost("data", "profile", manifest)
        self.assertEqual(profiled.returncode, 0, profiled.stderr)
        predicted = isocost("predict", "--sample", "manifest.jsonl-000000/s017", "--data", manifest)
        self.assertEqual(predicted.returncode, 0, predicted.stderr)
        numbered = isocost("predict", "--sample", "manifest.jsonl-000000/000000018", "--data", manifest,
                           "--number-keys")
        self.assertEqual(numbered.returncode, 0, numbered.stderr)
        refused = isocost("check", manifest, "--media-root", self.directory / "nowhere")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("nowhere is no directory", refused.stderr)
        with manifest.open("a") as out:
            out.write('{"key": "cut"')
        checked = isocost("check", manifest, "--json")
        self.assertEqual(checked.returncode, 1)
        [bad] = json.loads(checked.stdout)["bad"]
        self.assertIn(f"{manifest}:41: ", bad["reason"])

    def test_an_index_that_is_not_kept_is_status_1(self):
        indexes = self.directory / "indexes"
        indexed = isocost("index", self.shards, "--index-dir", indexes)
        self.assertEqual(indexed.returncode, 0, indexed.stderr)
        (folder,) = indexes.iterdir()
        shutil.rmtree(folder)
        folder.write_text("in the way")
        indexed = isocost("index", self.shards, "--index-dir", indexes, "--json")
        self.assertEqual(indexed.returncode, 1, indexed.stderr)
        self.assertEqual(json.loads(indexed.stdout)["not_kept"], 3)
        refused = isocost("index", self.shards, "--index-dir", folder)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""))
        self.assertIn(f"--index-dir: cannot make {folder}", refused.stderr)

    def test_limits_that_allow_nothing_are_refused(self):
        for option in ("--memory", "--max-pixels"):
            self.assertEqual(isocost("check", option, "0", self.shards).returncode, 2, option)

    def test_what_serve_would_refuse_is_bad(self):
        pictures = self.directory / "pictures"
        pictures.mkdir()
        for side in (56, 700):
            (pictures / f"{side}.png").write_bytes(gray_png(side))
        self.assertEqual(isocost("make-shards", pictures, self.directory / "two").returncode, 0)
        checked = isocost("check", "--memory", "4MiB", "--json", self.directory / "two")
        self.assertEqual(checked.returncode, 1, checked.stderr)
        (bad,) = json.loads(checked.stdout)["bad"]
        self.assertEqual(bad["key"], "700")
        self.assertIn("half of the memory budget", bad["reason"])
        served = isocost("serve", "--data", self.directory / "two", "--memory", "4MiB", "--ranks", "1",
                         "--global-batch-size", "2", "--microbatches", "1", "--bind", "tcp://127.0.0.1:*",
                         "--on-bad-sample", "fail", "--bad-samples-file", "")
        self.assertEqual(served.returncode, 1, served.stderr)
        self.assertIn(bad["reason"], served.stderr)

    def test_a_directory_without_shards_is_named(self):
        for command in ("check", "index"):
            failed = isocost(command, self.directory)
            self.assertNotEqual(failed.returncode, 0)
            self.assertIn(str(self.directory), failed.stderr)


class WithServer(WithShards):
    """Shards on a server, which a file lists."""

    def setUp(self):
        super().setUp()
        server = self.server = FaultServer(self.shards)
        server.__enter__()
        self.addCleanup(server.__exit__)
        names = sorted(path.name for path in self.shards.glob("*.tar"))
        self.listing = self.directory / "addresses.txt"
        self.listing.write_text("".join(f"{server.address}{name}\n" for name in names))
        self.names = names


class StoppedReads(WithServer):
    """Commands that are stopped while they wait for a server."""

    def stopped(self, arguments, method):
        """Returns the status and errors of a command that is stopped while a request of this method is open."""
        self.server.clear_log()
        self.server.set_rules([{"fault": "stall", "method": method, "after": -1}])
        program = subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        deadline = time.monotonic() + SECONDS
        while not any(request["method"] == method for request in self.server.requests()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=SECONDS)
        self.assertEqual(output, "", arguments)
        return program.returncode, errors

    def test_print_that_they_stopped_and_no_request(self):
        data = [self.listing, "--index-dir", self.directory / "indexes"]
        for command in (["serve", "--bind", "tcp://127.0.0.1:*", "--data"], ["check"], ["data", "ls"],
                        ["data", "profile"]):
            for method in ("HEAD", "GET"):
                status, errors = self.stopped([*command, *data], method)
                self.assertEqual(status, 130, (command, errors))
                said = [line for line in errors.splitlines() if line.startswith("isocost: ")]
                self.assertEqual(len(said), 1, (command, errors))
                self.assertTrue(said[0].startswith("isocost: stopped"), (command, errors))
                self.assertNotIn("cancelled", errors)

    def test_an_index_is_stopped_without_a_word(self):
        status, errors = self.stopped(["index", self.listing, "--index-dir", self.directory / "indexes"], "GET")
        self.assertEqual(status, -signal.SIGINT)
        self.assertNotIn("isocost: ", errors)

    def test_a_read_of_a_sample_is_stopped(self):
        data = [self.listing, "--index-dir", self.directory / "indexes"]
        self.assertEqual(isocost("index", *data).returncode, 0)
        for command in (["data", "show", *data, "s017", "--all"], ["check", *data]):
            status, errors = self.stopped(command, "GET")
            self.assertEqual(status, 130, (command, errors))
            self.assertRegex(errors, r"(?m)^isocost: stopped", command)
            self.assertNotIn("cancelled", errors)


class UnreachableServers(WithServer):
    """Addresses behind which is no server, or another one."""

    def failure(self, seconds, *arguments, **variables):
        """Returns what `index` prints, which must fail within so many seconds."""
        begun = time.monotonic()
        environment = {**os.environ, "ISOCOST_S3_ANONYMOUS": "1", "XDG_CACHE_HOME": str(self.directory), **variables}
        failed = subprocess.run([PROGRAM, "index", *map(str, arguments)], capture_output=True, text=True,
                                timeout=50, env=environment)
        self.assertLess(time.monotonic() - begun, seconds)
        self.assertEqual((failed.returncode, failed.stdout), (1, ""), failed.stderr)
        return failed.stderr

    def test_are_given_up_within_seconds(self):
        # The whole time of a server that has answered is a minute.
        said = self.failure(30, "http://127.0.0.1:1/{0..9}.tar")
        self.assertRegex(said, r"(?m)^isocost: http://127\.0\.0\.1:1/\d\.tar: no connection to the server: .*address")
        said = self.failure(30, "s3://bucket/data/", AWS_ENDPOINT_URL="http://127.0.0.1:1")
        self.assertIn("isocost: s3://bucket/: no connection to http://127.0.0.1:1 (AWS_ENDPOINT_URL): ", said)

    def test_a_web_server_is_no_bucket(self):
        address = self.server.address.rstrip("/")
        for data in ("s3://bucket/data/", "s3://bucket/{0..9}.tar", "s3://bucket/a.tar"):
            said = self.failure(SECONDS, data, AWS_ENDPOINT_URL_S3=address)
            self.assertIn(f"{address} (AWS_ENDPOINT_URL_S3) does not answer as a server of S3 does", said)
            self.assertNotIn("does not exist", said)


class CacheCommands(WithServer):
    """`isocost cache`, after a command that read from a server."""

    def setUp(self):
        super().setUp()
        self.cache = self.directory / "cache"

    def index(self):
        indexed = isocost("index", self.listing, "--index-dir", self.directory / "indexes", "--cache", self.cache,
                          "--cache-size", "1GiB")
        self.assertEqual(indexed.returncode, 0, indexed.stderr)

    def test_lists_verifies_and_removes(self):
        self.index()
        listed = json.loads(isocost("cache", "ls", self.cache, "--json").stdout)
        self.assertEqual({entry["object"] for entry in listed["entries"]},
                         {self.server.address + name for name in self.names})
        sizes = {self.server.address + path.name: path.stat().st_size for path in self.shards.glob("*.tar")}
        for entry in listed["entries"]:
            self.assertEqual(entry["bytes"], sizes[entry["object"]])
            self.assertTrue(0 < entry["held_bytes"] <= entry["bytes"])
        self.assertIn(self.names[0], isocost("cache", "ls", self.cache).stdout)
        verified = isocost("cache", "verify", self.cache)
        self.assertEqual((verified.returncode, verified.stderr), (0, ""))
        self.assertIn("0 damaged", verified.stdout)
        entry = next(self.cache.glob("*.entry"))
        with entry.open("r+b") as file:
            file.seek(4096 + 10)
            file.write(b"\xff\xfe")
        damaged = isocost("cache", "verify", self.cache, "--json")
        self.assertEqual(damaged.returncode, 1)
        self.assertEqual(json.loads(damaged.stdout)["damaged"], 1)
        self.assertEqual(json.loads(isocost("cache", "verify", self.cache, "--json").stdout)["damaged"], 0)
        removed = isocost("cache", "rm", self.cache, "--prefix", self.server.address + self.names[0], "--json")
        self.assertEqual(json.loads(removed.stdout)["removed"], 1)
        self.assertEqual(isocost("cache", "rm", self.cache).returncode, 0)
        self.assertEqual(json.loads(isocost("cache", "ls", self.cache, "--json").stdout)["entries"], [])

    def test_an_index_that_is_made_again_downloads_nothing(self):
        self.index()
        shutil.rmtree(self.directory / "indexes")
        self.server.clear_log()
        self.index()
        self.assertEqual({request["method"] for request in self.server.requests()}, {"HEAD"})

    def test_check_says_what_it_downloads_and_uses_no_cache(self):
        checked = isocost("check", self.listing, "--index-dir", self.directory / "indexes")
        self.assertEqual(checked.returncode, 0, checked.stderr)
        stored = sum(path.stat().st_size for path in self.shards.glob("*.tar"))
        self.assertIn(f"{stored} bytes are downloaded", checked.stderr)
        self.assertEqual(isocost("check", self.listing, "--cache", self.cache).returncode, 2)

    def test_a_directory_that_is_no_cache_is_refused(self):
        for command in ("ls", "rm", "verify"):
            for directory in (self.shards, self.directory / "absent"):
                refused = isocost("cache", command, directory)
                self.assertEqual((refused.returncode, refused.stdout), (2, ""))
                self.assertIn(str(directory), refused.stderr)
        refused = isocost("index", self.listing, "--cache", self.shards)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("holds other files", refused.stderr)
        self.assertTrue(list(self.shards.glob("*.tar")))


class DataCommands(WithShards):
    """`isocost data ls`, `show` and `step`."""

    def setUp(self):
        super().setUp()
        self.mixture = self.directory / "mixture.toml"
        self.mixture.write_text(f"""
steps = 6
[[source]]
name = "first"
path = "{self.shards.name}/shard-000000.tar"
proportion = 1
[[source]]
name = "rest"
path = "{self.shards.name}/shard-00000[12].tar"
proportion = [[0, 1], [3, 7]]
""")

    def add_sample(self, name, files):
        """A shard with one sample more."""
        folder = self.directory / name
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        made = isocost("make-shards", folder, self.directory / f"{name}-shards")
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.directory / f"{name}-shards"

    def listed(self, *arguments):
        shown = isocost("data", "ls", *arguments, "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return json.loads(shown.stdout)

    def test_ls_has_a_row_for_each_shard(self):
        listed = self.listed(self.shards)
        self.assertNotIn("sources", listed)
        self.assertEqual((listed["samples"], listed["usable"], listed["bad"], listed["broken"]), (40, 40, 0, 0))
        self.assertEqual([row["shard"] for row in listed["shards"]],
                         ["shard-000000.tar", "shard-000001.tar", "shard-000002.tar"])
        for row in listed["shards"]:
            self.assertEqual(row["bytes"], (self.shards / row["shard"]).stat().st_size)
            self.assertEqual((row["condition"], row["format"]), ("whole", "tar"))
            self.assertEqual(row["tokens"], {"there": False})
        self.assertEqual(listed["bytes"], sum(row["bytes"] for row in listed["shards"]))
        table = isocost("data", "ls", self.shards).stdout.splitlines()
        self.assertEqual(len(table), 5)
        self.assertRegex(table[1], r"^ +16 +16 +0 .*tar +none +shard-000000.tar$")
        self.assertRegex(table[-1], r"^ +40 +40 +0 .*3 shards$")

    def test_ls_has_the_sources_of_a_mixture(self):
        listed = self.listed(self.mixture)
        self.assertEqual([(row["name"], row["shards"], row["samples"]) for row in listed["sources"]],
                         [("first", 1, 16), ("rest", 2, 24)])
        self.assertEqual([(row["source"], row["shard"]) for row in listed["shards"]],
                         [("first", "first/shard-000000.tar"), ("rest", "rest/shard-000001.tar"),
                          ("rest", "rest/shard-000002.tar")])
        self.assertRegex(isocost("data", "ls", self.mixture).stdout, r"(?m)^ +24 +24 +0 .* 2 +0  rest$")

    def test_ls_tells_what_is_damaged_lost_or_bad(self):
        isocost("index", self.shards)
        whole = (self.shards / "shard-000001.tar").read_bytes()
        (self.shards / "shard-000001.tar").write_bytes(whole[:len(whole) // 2 - 100])
        (self.shards / "shard-000002.tar").unlink()
        pictures = self.add_sample("pictures", {"good.png": gray_png(28)})
        bad = pathlib.Path(self.shards / "shard-000003.tar")
        with tarfile.open(next(pictures.glob("*.tar"))) as tar:
            picture = tar.extractfile(tar.getmembers()[0]).read()
        with tarfile.open(bad, "w") as tar:
            for name, content in (("cut.png", picture[:20]), ("whole.png", picture)):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        listed = self.listed(self.shards, "--samples")
        conditions = {row["shard"]: row["condition"] for row in listed["shards"]}
        self.assertEqual(conditions, {"shard-000000.tar": "whole", "shard-000001.tar": "damaged",
                                      "shard-000002.tar": "lost", "shard-000003.tar": "whole"})
        self.assertEqual(listed["broken"], 2)
        self.assertEqual((listed["shards"][2]["usable"], listed["shards"][2]["bad"]), (1, 1))
        self.assertEqual([sample["key"] for sample in listed["shards"][2]["usable_samples"]], ["whole"])
        self.assertEqual([sample["key"] for sample in listed["bad_samples"]], ["cut"])
        table = isocost("data", "ls", self.shards, "--samples").stdout
        self.assertRegex(table, r"shard-000001.tar: damaged: ")
        self.assertRegex(table, r"(?m)^ +- +- +- .*shard-000002.tar: lost: ")
        self.assertIn("    bad: shard-000003.tar/cut", table)

    def test_ls_lists_samples(self):
        [row] = self.listed(self.shards, "--shard", "shard-000001.tar")["shards"]
        self.assertEqual([sample["key"] for sample in row["usable_samples"]], [f"s{i:03}" for i in range(16, 32)])
        self.assertEqual(row["usable_samples"][0]["parts"],
                         [{"name": "txt", "modality": "text", "format": "UTF-8 text", "bytes": 9, "text_bytes": 9}])
        self.assertNotIn("tokens", row["usable_samples"][0])
        profile = self.directory / "profile.json"
        profile.write_text((ROOT / "tests/compatibility/0.1/model_profile.json").read_text())
        [row] = self.listed(self.shards, "--shard", "shard-000001.tar", "--profile", profile)["shards"]
        predicted = json.loads(isocost("predict", "--data", self.shards, "--sample", "s016", "--profile", profile,
                                       "--json").stdout)
        self.assertEqual(row["usable_samples"][0]["tokens"], predicted["sample"]["tokens"])
        self.assertGreater(row["usable_samples"][0]["seconds"], 0)
        refused = isocost("data", "ls", self.shards, "--shard", "shard-9.tar")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--shard shard-9.tar: there is no shard of this name", refused.stderr)

    def test_show_has_parts_texts_and_json(self):
        shards = self.add_sample("mixed", {"k.png": gray_png(56), "k.txt": b"two\nlines \x1b[31m" + b"long " * 90,
                                           "k.json": b'{"weight": 0.5, "more": [1, 2]}'})
        shown = isocost("data", "show", shards, "k")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        lines = shown.stdout.splitlines()
        self.assertEqual(lines[0], "shard-000000.tar/k, weight 0.5")
        self.assertRegex(shown.stdout, r"(?m)^png +image +PNG +56x56 +\d+$")
        [text] = [line for line in lines if line.startswith("txt: ")]
        self.assertEqual(len(text), 100)
        self.assertTrue(text.startswith("txt: two lines ?[31mlong"), text)
        self.assertTrue(text.endswith("…"), text)
        self.assertIn('json: {"weight": 0.5, "more": [1, 2]}', lines)
        whole = isocost("data", "show", shards, "shard-000000.tar/k", "--all").stdout
        self.assertIn("\ntxt:\ntwo\nlines ?[31m" + "long " * 90, whole)
        document = json.loads(isocost("data", "show", shards, "k", "--json").stdout)
        self.assertEqual((document["shard"], document["key"], document["weight"]), ("shard-000000.tar", "k", 0.5))
        self.assertEqual(document["texts"]["txt"], "two\nlines \x1b[31m" + "long " * 90)
        self.assertEqual(json.loads(document["texts"]["json"])["more"], [1, 2])
        self.assertNotIn("seconds", document)

    def test_show_predicts_cost_by_a_profile(self):
        profile = ROOT / "tests/compatibility/0.1/model_profile.json"
        shown = json.loads(isocost("data", "show", self.mixture, "rest/shard-000001.tar/s017", "--profile", profile,
                                   "--json").stdout)
        self.assertEqual(shown["source"], "rest")
        predicted = json.loads(isocost("predict", "--data", self.mixture, "--sample", "rest/shard-000001.tar/s017",
                                       "--profile", profile, "--json").stdout)
        self.assertEqual(shown["model"], predicted["sample"])
        self.assertGreater(shown["seconds"], 0)
        self.assertIn(" s predicted, ", isocost("data", "show", self.shards, "s017", "--profile", profile).stdout)

    def test_show_names_keys_that_are_near(self):
        refused = isocost("data", "show", self.shards, "shard-000000.tar/s01")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("holds no sample with the key 'shard-000000.tar/s01'", refused.stderr)
        self.assertIn("; similar: shard-000000.tar/s0", refused.stderr)
        two = self.directory / "two.toml"
        two.write_text("".join(f'[[source]]\nname = "{name}"\npath = "{self.shards.name}"\n' for name in ("a", "b")))
        self.assertIn("2 samples have the key 's000': give one as shard/key, such as a/shard-000000.tar/s000 or",
                      isocost("data", "show", two, "s000").stderr)

    def test_step_has_the_samples_of_each_source(self):
        for step, first in ((0, 4), (3, 1)):
            shown = isocost("data", "step", self.mixture, step, "--global-batch-size", 8, "--json")
            self.assertEqual(shown.returncode, 0, shown.stderr)
            document = json.loads(shown.stdout)
            self.assertEqual((document["step"], document["steps"], document["samples"]), (step, 6, 8))
            self.assertEqual([(row["name"], row["samples"]) for row in document["sources"]],
                             [("first", first), ("rest", 8 - first)])
            self.assertEqual([drawn["source"] for drawn in document["drawn"]].count("first"), first)
            self.assertEqual(sum(drawn["tokens"] for drawn in document["drawn"]), document["tokens"])
            self.assertNotIn("rank", document["drawn"][0])
        other = json.loads(isocost("data", "step", self.mixture, 0, "--global-batch-size", 8, "--seed", 5,
                                   "--json").stdout)
        same = json.loads(isocost("data", "step", self.mixture, 0, "--global-batch-size", 8, "--seed", 0,
                                  "--json").stdout)
        self.assertNotEqual([row["sample"] for row in other["drawn"]], [row["sample"] for row in same["drawn"]])

    def test_mixture_counts_what_the_steps_have(self):
        picture = self.directory / "mixture.svg"
        counted = isocost("data", "mixture", self.mixture, "--global-batch-size", 8, "--svg", picture, "--json")
        self.assertEqual(counted.returncode, 0, counted.stderr)
        document = json.loads(counted.stdout)
        self.assertEqual((document["steps"], document["edges"]), (6, list(range(7))))
        for step in range(6):
            drawn = json.loads(isocost("data", "step", self.mixture, step, "--global-batch-size", 8, "--json").stdout)
            for source, row in zip(document["sources"], drawn["sources"]):
                self.assertEqual(source["name"], row["name"])
                before = source["given_before"]
                self.assertEqual(before[step + 1] - before[step], row["samples"], (step, row))
        for source in document["sources"]:
            self.assertEqual(source["given"], source["given_before"][-1])
            self.assertAlmostEqual(source["times_read"], source["given"] / source["samples"])
        self.assertIn("first (read", picture.read_text())
        table = isocost("data", "mixture", self.mixture, "--global-batch-size", 8, "--until", 4)
        self.assertIn(": 4 steps of 8 samples\n", table.stdout)
        self.assertRegex(table.stdout, r"(?m)^ +16 +\d+ +0\.\d\dx +50\.0 % .* first$")
        self.assertIn("mixture.svg exists: --force replaces it",
                      isocost("data", "mixture", self.mixture, "--svg", picture).stderr)
        refused = isocost("data", "mixture", self.shards)
        self.assertEqual((refused.returncode, refused.stdout), (2, ""), refused.stderr)
        self.assertIn("is no mixture: give the TOML file of one", refused.stderr)

    def test_step_has_ranks_where_they_are_known(self):
        arguments = ("data", "step", self.shards, 1, "--global-batch-size", 8, "--microbatches", 2)
        drawn = json.loads(isocost(*arguments, "--ranks", 2, "--json").stdout)["drawn"]
        places = [(row["rank"], row["microbatch"]) for row in drawn]
        self.assertEqual(sorted(set(places)), [(0, 0), (0, 1), (1, 0), (1, 1)])
        table = isocost(*arguments)
        self.assertIn("epoch 0, step 1 of 5: 8 samples, ", table.stdout)
        self.assertIn("--ranks N shows the rank and the microbatch of each sample", table.stdout)
        self.assertRegex(isocost(*arguments, "--ranks", 2).stdout, r"(?m)^ +0 +1 .*shard-00000\d.tar/s\d{3}$")
        config = self.directory / "node.toml"
        config.write_text('data = "elsewhere"\nranks = 2\nglobal_batch_size = 8\nmicrobatches = 2\n')
        by_file = json.loads(isocost("data", "step", self.shards, 1, "--config", config, "--json").stdout)
        self.assertEqual(by_file["drawn"], drawn)

    def test_step_refuses_what_is_not_there(self):
        for arguments, says in (((self.mixture, 6), "step 6: epoch 0 has 6 steps, from 0 on"),
                                ((self.shards, 0, "--epoch", 1), "epoch 1: there is 1 epoch, from 0 on; set epochs"),
                                ((self.shards, "first"), "'first' is not a number"),
                                ((self.shards, 0, "--ranks", 100), "global_batch_size = 64")):
            refused = isocost("data", "step", *arguments)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""), refused.stderr)
            self.assertIn(says, refused.stderr)


class DataProfile(WithShards):
    OPTIONS = ("--ranks", "2", "--microbatches", "2", "--global-batch-size", "8", "--batches", "4")

    def test_table_json_and_report(self):
        page = self.directory / "report.html"
        shown = isocost("data", "profile", self.shards, *self.OPTIONS, "--html", page, "--gpu-hours", "100")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("40 samples, 0 bad; 40 profiled", shown.stdout)
        self.assertRegex(shown.stdout, r"of 100 GPU-hours, tokens saves \S+ and cost \S+\n")
        for policy in ("in-order", "tokens", "cost"):
            self.assertRegex(shown.stdout, rf"(?m)^{policy} +\d")
        self.assertIn("profiling samples", shown.stderr)
        self.assertTrue(page.read_text(encoding="utf-8").startswith("<!doctype html>"))
        kept = isocost("data", "profile", self.shards, "--html", page)
        self.assertEqual((kept.returncode, kept.stdout), (2, ""))
        self.assertIn(f"{page} exists: --force replaces it", kept.stderr)
        forced = isocost("data", "profile", self.shards, *self.OPTIONS, "--html", page, "--force")
        self.assertEqual(forced.returncode, 0)
        printed = isocost("data", "profile", self.shards, *self.OPTIONS, "--json", "--samples", "10")
        profile = json.loads(printed.stdout)
        self.assertEqual(profile["samples"], 40)
        self.assertEqual(len(profile["loads"]["rows"]), 10)
        self.assertEqual(profile["modalities"]["text"]["samples"], 10)
        self.assertGreaterEqual(profile["skew"]["cost"]["saved_share"], profile["skew"]["tokens"]["saved_share"])
        self.assertEqual(profile["most_expensive"][0]["shard"][:5], "shard")

    def test_the_hours_saved_are_everywhere(self):
        page = self.directory / "report.html"
        printed = isocost("data", "profile", self.shards, *self.OPTIONS, "--gpu-hours", "100", "--json", "--html", page)
        profile = json.loads(printed.stdout)
        hours = profile["gpu_hours"]
        self.assertEqual((hours["of"], hours["in-order"]), ("run", 100))
        self.assertAlmostEqual(hours["saved"], 100 * profile["skew"]["cost"]["saved_share"])
        self.assertIn("GPU-hours of the run: 100 in-order", page.read_text(encoding="utf-8"))
        unsaid = json.loads(isocost("data", "profile", self.shards, *self.OPTIONS, "--json").stdout)
        self.assertIsNone(unsaid["gpu_hours"])
        self.assertIsNone(unsaid["loader"])
        week = json.loads(isocost("data", "profile", self.shards, *self.OPTIONS, "--gpus", "64", "--json",
                                  "--price-per-gpu-hour", "2").stdout)["savings"]
        self.assertAlmostEqual(week["gpu_hours_a_week"], 64 * 168 * unsaid["skew"]["cost"]["saved_share"])
        self.assertAlmostEqual(week["money_a_week"], 2 * week["gpu_hours_a_week"])
        self.assertEqual(unsaid["savings"]["gpus"], 2)
        self.assertIn("What balancing saves", page.read_text(encoding="utf-8"))

    def test_text_alone_has_no_correlation(self):
        shown = isocost("data", "profile", self.shards, *self.OPTIONS)
        self.assertIn("correlation of encoder and LLM seconds: - (of ranks -)", shown.stdout)

    def test_impossible_numbers_are_refused(self):
        for option, values in (("--gpu-hours", ("nan", "inf", "-inf", "-1", "x")),
                               ("--samples", ("-1", "99999999999999999999", "1000000001", "1.5")),
                               ("--seed", ("-1", "18446744073709551615")),
                               ("--batches", ("-1", "0", "18446744073709551615", "100001")),
                               ("--most-expensive", ("-1", "18446744073709551615")),
                               ("--ranks", ("0", "-1", "99999999999999999999"))):
            for value in values:
                refused = isocost("data", "profile", self.shards, f"{option}={value}")
                self.assertEqual((refused.returncode, refused.stdout), (2, ""), (option, value))
                name = option.removeprefix("--").replace("-", "[-_]")
                self.assertRegex(refused.stderr, name, (option, value))
                self.assertLess(len(refused.stderr), 200, (option, value))
        page = self.directory / "missing" / "report.html"
        refused = isocost("data", "profile", self.shards, *self.OPTIONS, "--html", page)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn(str(page), refused.stderr)

    def test_plan_reads_what_it_wrote(self):
        data = self.directory / "D.json"
        data.write_text(isocost("data", "profile", self.shards, *self.OPTIONS, "--json").stdout, encoding="utf-8")
        layout = self.directory / "layout.json"
        options = ("--gpus", "4", "--global-batch-size", "16", "--batches", "1", "--evaluations", "50", "--json")
        planned = isocost("plan", "--data-profile", data, *options, "--output", layout)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        best = json.loads(planned.stdout)["best"][0]["layout"]
        written = json.loads(layout.read_text(encoding="utf-8"))
        self.assertGreater(written.pop("activation_caps")["llm_bytes"], 1 << 30)
        for module, layers in (("encoder", 27), ("llm", 28)):  # of the stated default's architectures
            self.assertEqual(sum(written[module].pop("layers")), layers)
        self.assertEqual(written, best)
        fingerprint = isocost("layout", "fingerprint", layout)
        self.assertRegex(fingerprint.stdout, r"^\d+\n$", fingerprint.stderr)
        layout.write_text(json.dumps(json.loads(layout.read_text(encoding="utf-8")), indent=3), encoding="utf-8")
        self.assertEqual(isocost("layout", "fingerprint", layout).stdout, fingerprint.stdout)
        self.assertRegex(isocost("layout", "receiver", layout, "0").stdout, r"^0 \d+\n$")
        refused = isocost("layout", "receiver", layout, "4")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("4", refused.stderr)

    def test_simulate_and_emulate_read_what_it_wrote(self):
        data = self.directory / "D.json"
        data.write_text(isocost("data", "profile", self.shards, *self.OPTIONS, "--json").stdout, encoding="utf-8")
        job = ("--dp", "2", "--pp", "3", "--microbatches", "2", "--global-batch-size", "8", "--steps", "2", "--json")
        simulated = isocost_lab("simulate", "--data-profile", data, *job)
        self.assertEqual(simulated.returncode, 0, simulated.stderr)
        cost = json.loads(simulated.stdout)["policies"]["cost"]
        self.assertGreaterEqual(cost["step_s"], cost["bound_s"])
        emulated = isocost_lab("emulate", "--data-profile", data, *job, "--step-seconds", "0.05")
        self.assertEqual(emulated.returncode, 0, emulated.stderr)
        self.assertEqual(json.loads(emulated.stdout)["trainers"], 6)

    def test_a_plan_from_the_data_is_that_from_their_profile(self):
        data = self.directory / "D.json"
        data.write_text(isocost("data", "profile", self.shards, "--json").stdout, encoding="utf-8")
        job = ("--gpus", "4", "--global-batch-size", "8", "--evaluations", "100", "--batches", "1", "--json")
        answers = []
        for samples in (("--data", self.shards), ("--data-profile", data)):
            planned = isocost("plan", *samples, *job, "--output", self.directory / "layout.json", "--force")
            self.assertEqual(planned.returncode, 0, planned.stderr)
            answers.append(json.loads(planned.stdout))
            for of_the_run in ("search_seconds", "took"):
                answers[-1].pop(of_the_run)
        self.assertGreater(answers[0]["loader"].pop("read_bytes_per_s"), 0)
        self.assertIsNone(answers[1]["loader"].pop("read_bytes_per_s"))  # a data profile has none
        self.assertEqual(*answers)

    def test_plan_says_what_balancing_saves_and_what_the_loader_needs(self):
        page, layout = self.directory / "plan.html", self.directory / "layout.json"
        job = ("plan", "--data", self.shards, "--gpus", "4", "--global-batch-size", "8", "--evaluations", "100",
               "--batches", "1", "--output", layout, "--force")
        shown = isocost(*job, "--price-per-gpu-hour", "2", "--html", page)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"cost saves \S+ % of in-order: \S+ of the 672 GPU-hours of a week on 4 GPUs, "
                                       r"which is \S+ at 2 per GPU-hour\n")
        self.assertRegex(shown.stdout, r"loader: \S+ samples/s; reads .*cores: not measured \(--measure-decoding\)\n")
        self.assertRegex(shown.stdout, r"it took: data profile \d+\.\d s, search \d+\.\d s; the best")
        html = page.read_text(encoding="utf-8")
        for text in ("What balancing saves", "What the loader needs", "The best layouts", "not measured"):
            self.assertIn(text, html)
        for text in ("http", "href", "src=", "<script", "nan"):
            self.assertNotIn(text, html)
        answer = json.loads(isocost(*job, "--json").stdout)
        savings = answer["savings"]
        self.assertEqual(savings["cost"]["step_s"], answer["best"][0]["step_s"])
        self.assertGreaterEqual(savings["in-order"]["step_s"], savings["cost"]["step_s"])
        self.assertAlmostEqual(savings["gpu_hours_a_week"], 672 * savings["saved_share"])
        self.assertIsNone(savings["money_a_week"])
        self.assertAlmostEqual(answer["loader"]["samples_per_s"], 8 / answer["best"][0]["step_s"])
        self.assertIsNone(answer["loader"]["cores"])
        kept = isocost(*job[:-1], "--html", page)
        self.assertEqual(kept.returncode, 2)
        self.assertIn("exists: --force replaces it", kept.stderr)

    def test_the_loader_is_measured_on_request(self):
        measured = isocost("plan", "--data", self.shards, "--gpus", "4", "--global-batch-size", "8", "--evaluations",
                           "10", "--batches", "1", "--output", self.directory / "layout.json", "--measure-decoding",
                           "--json")
        self.assertEqual(measured.returncode, 0, measured.stderr)
        self.assertIn("measuring the loader", measured.stderr)
        self.assertGreater(json.loads(measured.stdout)["loader"]["cores"], 0)
        for samples in (("--data-profile", "D.json"), ("--trace", "a.csv")):
            refused = isocost("plan", *samples, "--measure-decoding")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("--measure-decoding", refused.stderr)
            self.assertIn("--data", refused.stderr)

    def test_a_model_needs_a_profile_or_a_gpu(self):
        layout = self.directory / "layout.json"
        job = ("plan", "--data", self.shards, "--gpus", "4", "--output", layout)
        if not pathlib.Path("/dev/nvidiactl").exists():
            refused = isocost(*job, "--model", self.directory)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))
            for remedy in ("has no model profile", "give --profile profile.json", "--device cpu measures it here"):
                self.assertIn(remedy, refused.stderr)
        (self.directory / "layout_profile.json").write_text("older", encoding="utf-8")
        kept = isocost(*job, "--model", self.directory, "--device", "cpu")
        self.assertEqual(kept.returncode, 2)
        self.assertIn("layout_profile.json plans by it, and --force measures the model again", kept.stderr)
        unused = isocost(*job, "--device", "cpu")
        self.assertEqual(unused.returncode, 2)
        self.assertIn("--device says where --model is measured", unused.stderr)
        self.assertFalse(layout.exists())

    def test_a_price_is_a_number(self):
        for command in (("plan", "--data", self.shards), ("data", "profile", self.shards)):
            for price in ("two", "2 EUR", "$2", "-1", "0", "nan", "inf", "1e12", "2,5"):
                refused = isocost(*command, f"--price-per-gpu-hour={price}")
                self.assertEqual((refused.returncode, refused.stdout), (2, ""), price)
                self.assertIn(f"--price-per-gpu-hour is '{price}'; it must be a number above 0", refused.stderr)

    def test_how_data_are_read_belongs_to_data(self):
        refused = isocost("plan", "--data-profile", "D.json", "--model", "DIR")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--data", refused.stderr)
        self.assertIn("nowhere", isocost("plan", "--data", "nowhere").stderr)

    def test_one_kind_of_samples_is_taken(self):
        for arguments in ((), ("--data-profile", "D.json", "--trace", "a.csv"), ("--data", "a", "--trace", "a.csv"),
                          ("--data-profile", "D.json", "--weights", "1")):
            for program, command in ((PROGRAM, "plan"), (LAB, "simulate"), (LAB, "emulate")):
                refused = run(program, command, *arguments)
                self.assertEqual(refused.returncode, 2, arguments)
                self.assertNotIn("does not exist", refused.stderr)

    def test_plan_names_what_is_wrong_with_the_file(self):
        data = self.directory / "D.json"
        for text, says in (("{}", "isocost data profile --json"), ("[", "parse error"), ("", "D.json")):
            data.write_text(text, encoding="utf-8")
            failed = isocost("plan", "--data-profile", data)
            self.assertEqual(failed.returncode, 2)
            self.assertIn(says, failed.stderr)
            self.assertIn(str(data), failed.stderr)
        self.assertIn("does not exist", isocost("plan", "--data-profile", self.directory / "none.json").stderr)


class Serve(WithShards):
    def failure(self, *arguments):
        failed = isocost("serve", "--data", self.shards, *arguments)
        self.assertEqual(failed.returncode, 2, failed.stderr)
        self.assertEqual(failed.stdout, "")
        return failed.stderr

    def test_a_busy_port_is_named(self):
        _, endpoint = self.serve()
        self.assertIn(f"{endpoint} is in use", self.failure("--bind", endpoint))

    def test_binds_to_localhost_by_name(self):
        self.serve(bind="tcp://localhost:*")

    def test_is_done_at_a_signal_where_nobody_trains(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            node, _ = self.serve("--ranks", "2")
            node.send_signal(number)
            node.communicate(timeout=SECONDS)
            self.assertEqual(node.returncode, 0)

    def test_a_summary_is_written_at_a_signal(self):
        summary = self.directory / "run.json"
        node, _ = self.serve("--epochs", "0", "--summary", summary)
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=SECONDS)
        self.assertEqual(node.returncode, 0)
        told = json.loads(summary.read_text())
        self.assertEqual((told["version"], told["samples"]["delivered"]), (1, 0))
        for name in ("steps_planned", "steps_delivered", "planning_seconds_mean", "prediction_error_ratio"):
            self.assertIn(name, told)

    def test_every_json_document_has_a_version(self):
        manifest = self.directory / "manifest.jsonl"
        for command in (("check", self.shards), ("index", self.shards), ("predict", "--llm", "5"),
                        ("make-shards", manifest, self.directory / "more"), ("data", "profile", self.shards)):
            document = json.loads(isocost(*command, "--json").stdout)
            self.assertEqual(next(iter(document)), "version", command)

    def test_a_summary_is_written_at_an_error(self):
        pictures = self.directory / "pictures"
        pictures.mkdir()
        for side in range(30, 34):
            whole = gray_png(side)
            (pictures / f"{side}.png").write_bytes(whole if side != 32 else whole[:45] + bytes(10) + whole[55:])
        shards, summary = self.directory / "broken", self.directory / "run.json"
        self.assertEqual(isocost("make-shards", pictures, shards).returncode, 0)
        failed = isocost("serve", "--data", shards, "--bind", "tcp://127.0.0.1:*", "--ranks", 1, "--max-bad-samples", 0,
                         "--bad-samples-file", self.directory / "bad.jsonl", "--summary", summary)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn("1 bad sample, max_bad_samples allows 0", failed.stderr)
        self.assertEqual(json.loads(summary.read_text())["samples"]["bad"], 1)

    def test_says_at_once_where_it_cannot_write(self):
        for option in ("--summary", "--bad-samples-file"):
            missing = self.directory / "missing" / "file.json"
            self.assertIn(f"cannot write {missing}", self.failure(option, missing))

    def test_an_impossible_port_is_named(self):
        self.assertIn("99999", self.failure("--bind", "tcp://127.0.0.1:99999"))

    def test_needs_keys_beyond_loopback(self):
        self.assertIn("curve_key", self.failure("--bind", "tcp://0.0.0.0:*"))

    def test_serves_with_keys_that_keygen_made(self):
        self.assertEqual(isocost("keygen", self.directory / "node").returncode, 0)
        self.serve("--curve-key", self.directory / "node.secret")
        self.assertIn("node.public", self.failure("--curve-key", self.directory / "node.public"))

    def test_keygen_refuses_what_it_cannot_write(self):
        name = self.directory / "node"
        self.assertEqual(isocost("keygen", name).returncode, 0)
        for refused, says in ((isocost("keygen", name), "keys are not overwritten"),
                              (isocost("keygen", name / "sub" / "x"), f"make the directory {name}/sub, or name")):
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn(says, refused.stderr)

    def test_a_config_error_is_named_with_file_and_line(self):
        config = self.directory / "job.toml"
        config.write_text("ranks = 2\nrnaks = 3\n")
        self.assertIn(f"{config}:2: rnaks", self.failure("--config", config))
        config.write_text("ranks = \n")
        self.assertIn(f"{config}:1", self.failure("--config", config))
        self.assertIn("no/such.toml does not exist", self.failure("--config", "no/such.toml"))
        self.assertIn(f"config {self.directory} is a directory", self.failure("--config", self.directory))

    def test_a_layout_gives_ranks_and_microbatches(self):
        layout = self.directory / "layout.json"
        degrees = {"tensor": 1, "pipeline": 1, "data": 2}
        layout.write_text(json.dumps({"version": 1, "encoder_place": "own", "encoder": degrees, "llm": degrees,
                                      "microbatches": 3, "chunks": 1, "schedule": "1f1b"}))
        self.serve("--layout", layout, "--global-batch-size", "6")
        config = self.directory / "job.toml"
        config.write_text(f"layout = '{layout}'\nglobal_batch_size = 6\n")
        self.serve("--config", config)
        self.assertIn("ranks = 3", self.failure("--layout", layout, "--ranks", "3", "--global-batch-size", "12"))
        self.assertIn("global_batch_size = 4: 2 ranks × 3 microbatches", self.failure("--layout", layout,
                                                                                 "--global-batch-size", "4"))
        layout.write_text("{}")
        self.assertIn(f"{layout}: ", self.failure("--config", config))

    def test_files_are_read_once(self):
        layout, profile, config = (self.directory / name for name in ("layout.json", "profile.json", "job.toml"))
        degrees = {"tensor": 1, "pipeline": 1, "data": 2}
        measured = pathlib.Path(__file__).parents[1] / "compatibility" / "0.1" / "model_profile.json"
        contents = {layout: json.dumps({"version": 1, "encoder_place": "own", "encoder": degrees, "llm": degrees,
                                        "microbatches": 3, "chunks": 1, "schedule": "1f1b"}),
                    profile: measured.read_text(),
                    config: "global_batch_size = 6\n"}
        for pipe, content in contents.items():
            os.mkfifo(pipe)  # which gives its content once
            threading.Thread(target=pipe.write_text, args=(content,), daemon=True).start()
        self.serve("--config", config, "--layout", layout, "--profile", profile)

    def test_flags_override_the_file_and_the_file_the_layout(self):
        layout, config = self.directory / "layout.json", self.directory / "job.toml"
        degrees = {"tensor": 1, "pipeline": 1, "data": 2}
        layout.write_text(json.dumps({"version": 1, "encoder_place": "own", "encoder": degrees, "llm": degrees,
                                      "microbatches": 3, "chunks": 1, "schedule": "1f1b"}))
        config.write_text(f"layout = '{layout}'\nmicrobatches = 4\nglobal_batch_size = 4\nbalance = 'fair'\n")
        self.assertIn(f"{config}:4: balance: 'fair'", self.failure("--config", config))
        config.write_text(f"layout = '{layout}'\nmicrobatches = 4\nglobal_batch_size = 4\n")
        self.assertIn("microbatches = 4: layout", self.failure("--config", config))
        self.assertIn("global_batch_size = 4: 2 ranks", self.failure("--config", config, "--microbatches", "3"))
        self.serve("--config", config, "--microbatches", "3", "--global-batch-size", "6")

    def test_a_bad_value_is_named_with_its_flag(self):
        self.assertIn("--memory", self.failure("--memory", "much"))
        self.assertIn("global_batch_size = 4: 2 ranks × 4 microbatches",
                      self.failure("--ranks", "2", "--microbatches", "4", "--global-batch-size", "4"))
        self.assertIn("no/such.json", self.failure("--profile", "no/such.json"))
        profile = self.directory / "profile.json"
        profile.write_text("{")
        self.assertIn(str(profile), self.failure("--profile", profile))
        large = self.directory / "large.json"
        large.write_bytes(bytes(2 << 20))
        other = self.directory / "data.json"
        other.write_text('{"version": 3, "kind": "data profile"}')
        for command in (("predict", "--llm", "5"), ("data", "profile", self.shards), ("serve", "--data", self.shards)):
            for file, says in ((profile, "parse error"), (large, "is larger than 1024 KiB"),
                               (other, "this is a data profile, not a model profile")):
                failed = isocost(*command, "--profile", file)
                self.assertEqual(failed.returncode, 2, failed.stderr)
                self.assertIn(str(file), failed.stderr)
                self.assertIn(says, failed.stderr)


class Top(WithShards):
    def watched(self):
        """A running node, and where it serves metrics."""
        node, _ = self.serve("--metrics", "127.0.0.1:0")
        for line in node.stderr:
            if " metrics at " in line:
                return node, line.split()[-1]
        return self.fail("no line says where")

    def test_one_table_and_one_document(self):
        _, url = self.watched()
        shown = isocost("top", "--once", url)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("samples     0 delivered, 0 bad", shown.stdout)
        self.assertEqual(shown.stdout.count("correction  on"), 1, shown.stdout)
        document = json.loads(isocost("top", "--json", url.removesuffix("/metrics")).stdout)
        self.assertEqual(document["node"]["samples_bad_total"], 0)
        self.assertEqual(document["ranks"], [])

    def test_seconds_are_numbers_in_a_range(self):
        for option in ("--interval", "--request-timeout"):
            for seconds in ("nan", "inf", "0", "1s", ""):
                refused = isocost("top", "--once", f"{option}={seconds}", "http://127.0.0.1:1")
                self.assertEqual(refused.returncode, 2, (option, seconds))
                self.assertIn(option, refused.stderr)

    def test_nothing_listens(self):
        failed = isocost("top", "--once", "http://127.0.0.1:1")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("isocost serve --metrics", failed.stderr)

    def test_what_is_no_node(self):
        _, endpoint = self.serve()  # speaks ZeroMQ there
        failed = isocost("top", "--once", "--request-timeout", "1", endpoint.replace("tcp:", "http:"))
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn(endpoint.removeprefix("tcp://"), failed.stderr)
        for address in ("ftp://127.0.0.1", "http://", ""):
            self.assertEqual(isocost("top", "--once", address).returncode, 2, address)

    def test_a_metrics_port_in_use_is_status_2(self):
        _, url = self.watched()
        address = url.removeprefix("http://").removesuffix("/metrics")
        failed = isocost("serve", "--data", self.shards, "--bind", "tcp://127.0.0.1:*", "--metrics", address,
                         "--bad-samples-file", "")
        self.assertEqual(failed.returncode, 2, failed.stderr)
        self.assertIn(f"metrics = {address}: something listens there", failed.stderr)

    def test_a_bad_address_is_named(self):
        failed = isocost("serve", "--data", self.shards, "--metrics", "loader3:9464")
        self.assertEqual(failed.returncode, 2, failed.stderr)
        self.assertIn("'loader3:9464'", failed.stderr)

    def test_live_until_control_c_and_the_terminal_is_as_before(self):
        node, url = self.watched()
        terminal, its_end = pty.openpty()
        shown = subprocess.Popen([PROGRAM, "top", "--interval", "0.1", url], stdout=its_end, stderr=its_end)
        self.addCleanup(shown.kill)
        os.close(its_end)

        def read_until(marks, text=b""):
            while marks > 0:
                text += os.read(terminal, 65536)
                marks -= text.count(b"job         epoch")
                text = text[-16:] if marks > 0 else text
            return text

        read_until(3)
        node.kill()
        self.assertEqual(node.wait(SECONDS), -signal.SIGKILL)
        seen = b""
        while b"no answer: " not in seen:  # it continues: the node may come back
            seen += os.read(terminal, 65536)
        shown.send_signal(signal.SIGINT)
        rest = b""
        try:
            while piece := os.read(terminal, 65536):
                rest += piece
        except OSError:  # the program has closed its end
            pass
        os.close(terminal)
        self.assertEqual(shown.wait(SECONDS), 0)
        self.assertTrue(rest.endswith(b"\x1b[?25h\x1b[?1049l"), rest[-60:])


if __name__ == "__main__":
    unittest.main()
