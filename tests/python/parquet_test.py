"""Shards of Parquet files that Hugging Face's `datasets` has written."""

import base64
import datetime
import importlib.util
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import wave

from support import PROGRAM, TIMEOUT, main, png, write_tone

NEEDED = ("pyarrow", "datasets", "PIL")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import datasets
    import pyarrow
    from pyarrow import parquet

    datasets.disable_progress_bars()

TURNS = ({"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "A café."})


def tone(seconds):
    out = io.BytesIO()
    with wave.open(out, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(16000)
        written.writeframes(bytes(int(32000 * seconds)))
    return out.getvalue()


def medium(content, path=None):
    return {"bytes": content, "path": path}


def as_record(value):
    """A row as it stands in JSON Lines: bytes in base64, and without what is null."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: as_record(member) for name, member in value.items() if member is not None}
    return [as_record(each) for each in value] if isinstance(value, list) else value


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed")
class Parquet(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-parquet-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def write(self, name, rows, features=None, group=4, sound=None):
        """Writes rows by `datasets`, in row groups of this many. `sound`: the column that becomes an Audio, for which
        `datasets` would want a decoder if it were one from the beginning."""
        made = datasets.Dataset.from_list(rows, features=features)
        if sound:
            made = made.cast_column(sound, datasets.Audio(decode=False))
        made.to_parquet(self.directory / name, batch_size=group)
        self.assertEqual(parquet.ParquetFile(self.directory / name).num_row_groups, -(-len(rows) // group))
        return self.directory / name

    def command(self, *arguments):
        return [PROGRAM, "make-shards", *map(str, arguments)]

    def environment(self, **more):
        return {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", **more}

    def run_program(self, *arguments, expect=0, **environment):
        run = subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=TIMEOUT,
                             env=self.environment(**environment))
        self.assertEqual(run.returncode, expect, run.stderr)
        return run

    def shards(self, name):
        return {file.name: file.read_bytes() for file in (self.directory / name).glob("*.tar*")}

    def check_as_lines(self, files, rows, *arguments):
        """Compares shards with those of the same records as JSON Lines. Returns what the command printed."""
        lines = self.directory / "records.jsonl"
        lines.write_text("".join(json.dumps(as_record(row), ensure_ascii=False, separators=(",", ":")) + "\n"
                                 for row in rows), encoding="utf-8")
        for name in ("lines", "rows"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        expected = self.run_program(lines, self.directory / "lines", *arguments)
        made = self.run_program(*files, "--output", self.directory / "rows", *arguments)
        self.assertGreater(len(self.shards("lines")), 0)
        self.assertEqual(self.shards("rows"), self.shards("lines"))
        self.assertEqual(sorted(entry.name for entry in (self.directory / "rows").iterdir()),
                         sorted(self.shards("lines")), "something else stays")
        self.assertEqual(made.stdout, expected.stdout.replace(str(self.directory / "lines"),
                                                              str(self.directory / "rows")))
        return made.stdout

    def conversations(self, count):
        """Rows with `id`, `images` and `messages`, of none to two images each."""
        features = datasets.Features({
            "id": datasets.Value("string"), "images": datasets.Sequence(datasets.Image()),
            "messages": [{"role": datasets.Value("string"), "content": datasets.Value("string")}],
            "score": datasets.Value("float64"), "year": datasets.Value("int32"), "checked": datasets.Value("bool")})
        rows = [{"id": f"sample-{i}", "images": [medium(png(28 + i, 40, i), f"{i}.png")] * (i % 3),
                 "messages": [{"role": "user", "content": "<image>" * (i % 3) + f"What is it? {i}"}, TURNS[1]],
                 "score": i / 3, "year": i or None, "checked": i % 2 == 0} for i in range(count)]
        return rows, features

    def test_conversations_of_several_files_are_those_of_json_lines(self):
        rows, features = self.conversations(37)
        files = [self.write("a-00000-of-00002.parquet", rows[:21], features),
                 self.write("a-00001-of-00002.parquet", rows[21:], features, group=5)]
        for workers in (1, 3):
            printed = self.check_as_lines([*files, "--workers", workers], rows, "--samples-per-shard", 8)
            self.assertIn("37 samples", printed)
            self.assertIn("not read by any recipe: JSON key 'year' in 36 samples", printed)
        # A directory of them is read in the order of their names.
        for file in files:
            (self.directory / "data").mkdir(exist_ok=True)
            shutil.move(file, self.directory / "data" / file.name)
        self.check_as_lines([self.directory / "data"], rows, "--number-keys", "--gzip")

    def test_captions_of_images_and_sounds(self):
        pictures = [{"image": medium(png(40, 30 + i, i)), "caption": f"picture {i}"} for i in range(9)]
        features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string")})
        self.check_as_lines([self.write("pictures.parquet", pictures, features)], pictures)
        sounds = [{"id": i, "audio": medium(tone(0.2 + i / 10), "x.wav"), "text": "" if i == 1 else f"words {i}"}
                  for i in range(5)]
        features = datasets.Features({
            "id": datasets.Value("int64"), "text": datasets.Value("large_string"),
            "audio": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}})
        sounds = [{name: sound[name] for name in features} for sound in sounds]  # in the order of the columns
        self.check_as_lines([self.write("sounds.parquet", sounds, features, sound="audio")], sounds)

    def test_questions_and_content_parts_with_images(self):
        rows = [{"question": f"What is {i}?", "answer": "A cat.", "image": medium(png(30, 30, i))} for i in range(6)]
        features = datasets.Features({"question": datasets.Value("string"), "answer": datasets.Value("string"),
                                      "image": datasets.Image()})
        self.check_as_lines([self.write("questions.parquet", rows, features)], rows)
        part = {"type": datasets.Value("string"), "text": datasets.Value("string"), "image": datasets.Image()}
        features = datasets.Features({"messages": [{"role": datasets.Value("string"), "content": [part]}]})
        rows = [{"messages": [
            {"role": "user", "content": [{"type": "image", "text": None, "image": medium(png(30, 30, i))},
                                         {"type": "text", "text": "What is it?", "image": None}]},
            {"role": "assistant", "content": [{"type": "text", "text": "A cat.", "image": None}]}]} for i in range(6)]
        self.check_as_lines([self.write("parts.parquet", rows, features)], rows)

    def test_llavas_conversations_with_an_absent_image(self):
        turns = [{"from": "human", "value": "What?"}, {"from": "gpt", "value": "That."}]
        shown = [{"from": "human", "value": "<image>\nWhat?"}, turns[1]]
        rows = [{"id": f"x{i}", "image": medium(png(30, 30, i)) if i % 2 else None,
                 "conversations": shown if i % 2 else turns} for i in range(8)]
        features = datasets.Features({
            "id": datasets.Value("string"), "image": datasets.Image(),
            "conversations": [{"from": datasets.Value("string"), "value": datasets.Value("string")}]})
        self.check_as_lines([self.write("llava.parquet", rows, features)], rows)

    @unittest.skipIf(MISSING or not hasattr(datasets, "Json"), "this version of datasets has no Json")
    def test_columns_of_json(self):
        rows = [{"messages": [*TURNS], "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}]
        features = datasets.Features({"messages": datasets.Json(), "tools": datasets.Json()})
        self.check_as_lines([self.write("tools.parquet", rows, features)], rows)

    def test_paths_start_at_the_directory_of_the_files(self):
        for folder in ("", "train", "test"):
            (self.directory / folder / "media").mkdir(parents=True)
        (self.directory / "media" / "a.png").write_bytes(png(30, 40, 1))
        write_tone(self.directory / "train" / "media" / "b.wav", 0.3)
        kind = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
        for folder, name, path in (("", "image", "media/a.png"), ("train", "audio", "media/b.wav")):
            table = pyarrow.table({name: pyarrow.array([medium(None, path)], kind), "text": ["words"]})
            parquet.write_table(table, self.directory / folder / "rows.parquet")
            out = self.directory / f"of-{name}"
            self.run_program(self.directory / folder / "rows.parquet", "--output", out)
            self.assertEqual(len(self.shards(out.name)), 1)
        # With several directories it is the deepest that holds all of them.
        table = pyarrow.table({"image": pyarrow.array([medium(None, "media/a.png")], kind), "text": ["words"]})
        for folder in ("train", "test"):
            parquet.write_table(table, self.directory / folder / "more.parquet")
        files = [self.directory / folder / "more.parquet" for folder in ("train", "test")]
        self.run_program(*files, "--output", self.directory / "both")
        failed = self.run_program(*files, "--output", self.directory / "other", "--media-root",
                                  self.directory / "train", expect=1)
        self.assertIn(f"{files[0]}, row 1: ", failed.stderr)

    def test_other_types_are_refused_by_name(self):
        day = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
        for column, says in (
                (pyarrow.array([day]), "has the type timestamp[us, tz=UTC], which JSON lacks: write it as a string"),
                (pyarrow.array([b"x"]), "holds bytes that are not said to be a medium: cast it"),
                (pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64())), "has the type map<"),
                (pyarrow.array([{"at": [day]}]), "has the type timestamp[us, tz=UTC]"),
                (pyarrow.array([medium(b"x", "a.png")]), "holds media, which a record has in image, images, video")):
            table = pyarrow.table({"messages": [[*TURNS]], "more": column})
            parquet.write_table(table, self.directory / "rows.parquet")
            out = self.directory / "new" / "out"
            failed = self.run_program(self.directory / "rows.parquet", "--output", out, expect=2)
            self.assertIn(f"rows.parquet: column 'more' {says}", failed.stderr)
            self.assertIn("or leave the column out with --ignore-columns more", failed.stderr)
            self.assertFalse(out.parent.exists())
            self.run_program(self.directory / "rows.parquet", "--output", out, "--ignore-columns", "more")
            shutil.rmtree(out.parent)
        failed = self.run_program(self.directory / "rows.parquet", "--output", out, "--ignore-columns", "url", expect=2)
        self.assertIn("--ignore-columns names 'url', which is none of its columns: messages, more", failed.stderr)

    def test_a_bad_sample_is_named_by_file_and_row(self):
        rows, features = self.conversations(10)
        files = [self.write("a.parquet", rows, features), self.write("b.parquet", [
            {**row, "id": f"b{i}", "images": [medium(png(30, 30, 1)[:20])] if i == 7 else row["images"],
             "messages": [{"role": "user", "content": "<image>"}, TURNS[1]] if i == 7 else row["messages"]}
            for i, row in enumerate(rows)], features)]
        failed = self.run_program(*files, "--output", self.directory / "out", expect=1)
        self.assertIn(f"{files[1]}, row 8: b7: 000.png: ", failed.stderr)
        self.assertNotIn("records.jsonl", failed.stderr)
        made = json.loads(self.run_program(*files, "--output", self.directory / "out", "--skip-bad", "--json").stdout)
        self.assertEqual((made["samples"], [each["shard"] for each in made["bad"]]), (19, [f"{files[1]}, row 8"]))
        again = self.run_program(*files, "--output", self.directory / "out", expect=2)
        self.assertIn("already holds 1 shard", again.stderr)

    def test_text_that_is_not_utf_8_is_named(self):
        text = pyarrow.array([b"fine", b"\xff"], pyarrow.binary()).view(pyarrow.string())
        turns = pyarrow.array([[*TURNS]] * 2)
        parquet.write_table(pyarrow.table({"messages": turns, "source": text}), self.directory / "rows.parquet")
        failed = self.run_program(self.directory / "rows.parquet", "--output", self.directory / "out", expect=2)
        self.assertRegex(failed.stderr, "rows.parquet: row 1 or one of the 63 after it cannot be read: .*utf-8")

    def test_what_cannot_be_read_is_refused(self):
        rows, features = self.conversations(4)
        file, out = self.write("a.parquet", rows, features), self.directory / "out"
        (self.directory / "cut.parquet").write_bytes(file.read_bytes()[:200])
        (self.directory / "other.jsonl").write_text("{}")
        (self.directory / "empty").mkdir()
        empty = pyarrow.table({"messages": pyarrow.array([], pyarrow.list_(pyarrow.string()))})
        parquet.write_table(empty, self.directory / "none.parquet")
        for given, says in (((self.directory / "cut.parquet",), "cut.parquet: cannot be read as Parquet: "),
                            ((file, self.directory / "other.jsonl"), "other.jsonl is neither a Parquet file nor"),
                            ((file, self.directory / "empty"), "empty is neither a Parquet file nor a directory"),
                            ((file, file), "a.parquet is named twice"),
                            ((self.directory / "none.parquet",), "none.parquet: no rows"),
                            ((self.directory / "other.jsonl", "--workers", 2), "other.jsonl is no Parquet file")):
            failed = self.run_program(*given, "--output", out, expect=2)
            self.assertIn(says, failed.stderr)
            self.assertFalse(out.exists())
        self.assertIn("name it last, or by --output", self.run_program(file, expect=2).stderr)
        self.run_program(file, out)  # The last one is the directory.
        self.assertEqual(len(self.shards("out")), 1)

    def test_without_pyarrow_the_error_names_it(self):
        rows, features = self.conversations(4)
        file, hidden = self.write("a.parquet", rows, features), self.directory / "hidden"
        hidden.mkdir()
        (hidden / "pyarrow.py").write_text("raise ImportError('there is none')\n")
        path = os.pathsep.join(filter(None, (str(hidden), os.environ.get("PYTHONPATH"))))
        failed = self.run_program(file, "--output", self.directory / "out", expect=2, PYTHONPATH=path)
        self.assertRegex(failed.stderr, r"read by the Python package pyarrow, which \S+ cannot import "
                                        r"\(there is none\): pip install pyarrow")

    # Stopped runs

    def stopped(self, files, out, how):
        """Runs the command until some row groups are done, and stops it. Returns how many were done."""
        state = out / ".parquet-shard" / "state.json"
        run = subprocess.Popen(self.command(*files, "--output", out, "--workers", 2), stderr=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL, env=self.environment(), start_new_session=True)
        deadline = time.monotonic() + TIMEOUT
        while not state.exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertIsNone(run.poll(), "the command ended before it was stopped")
        how(run)
        self.errors = run.communicate(timeout=TIMEOUT)[1]
        while time.monotonic() < deadline and self.members(run.pid):
            time.sleep(0.01)
        self.assertEqual(self.members(run.pid), [], "processes were left")
        self.status = run.returncode
        return json.loads(state.read_text())["groups"]

    @staticmethod
    def members(session):
        """The processes of a session that have not ended."""
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
        return found

    def test_a_stopped_run_goes_on_where_it_was(self):
        """The text of a row that was converted is changed between the runs: it is not read again."""
        rows, features = self.conversations(300)
        file = self.write("a.parquet", rows, features, group=2)
        self.run_program(file, "--output", self.directory / "whole")
        for name, how, says in (
                ("killed", lambda run: run.kill(), "converting row groups"),
                ("terminated", lambda run: run.terminate(), "row groups, which stay in .*: the same command goes on"),
                ("interrupted", lambda run: os.killpg(run.pid, signal.SIGINT), "the same command goes on there")):
            out = self.directory / name
            done = self.stopped([file], out, how)
            self.assertTrue(0 < done < 150, done)
            self.assertRegex(self.errors, says)
            records = out / ".parquet-shard" / "records.jsonl"
            records.write_bytes(records.read_bytes().replace(b"What is it? 0", b"What is IT? 0", 1))
            self.run_program(file, "--output", out)
            self.assertEqual({shard: content.replace(b"What is IT? 0", b"What is it? 0")
                              for shard, content in self.shards(name).items()}, self.shards("whole"))
            self.assertNotEqual(self.shards(name), self.shards("whole"))
            self.assertFalse((out / ".parquet-shard").exists())

    def test_a_file_that_has_changed_is_converted_anew(self):
        rows, features = self.conversations(300)
        file = self.write("a.parquet", rows, features, group=2)
        out = self.directory / "out"
        self.assertGreater(self.stopped([file], out, lambda run: run.kill()), 0)
        records = out / ".parquet-shard" / "records.jsonl"
        records.write_bytes(records.read_bytes().replace(b"What is it? 0", b"What is IT? 0", 1))
        os.utime(file, (1, 1))
        self.run_program(file, "--output", out)
        self.run_program(file, "--output", self.directory / "whole")
        self.assertEqual(self.shards("out"), self.shards("whole"))


if __name__ == "__main__":
    main()
