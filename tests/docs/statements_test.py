"""Lists and numbers of the documentation that follow from the code: defaults, formats, families, versions, the built-in
profile, and the keys and attributes that programs and the package have.

Environment: ISOCOST_BUILD is the build tree whose programs run.
"""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["ISOCOST_BUILD"])
TIMEOUT = 60
# The version of each format: its source, and what its page says.
VERSIONS = {
    "loader/dataset/index/index_format.h": ("docs/index_format.md", "The version is {}."),
    "loader/dataset/tokens/token_file.cc": ("docs/token_format.md", "The version is {}."),
    "transport/wire/messages.h": ("docs/wire_format.md", "# Wire format, version {}\n"),
    "loader/metrics/status_json.cc": ("docs/metrics.md", '{{"version": {}, "kind": "node status",'),
    "loader/report/internal/data_profile_json.cc": ("docs/data_profile.md", '{{"version": {}, "kind": "data profile",'),
    "costmodel/profile.cc": ("docs/model_profile.md", "| `version` | integer | {}; another is refused"),
    "balancer/layout/layout.cc": ("docs/layout.md", "| `version` | integer | {}; another version is refused"),
}
NUMBERS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

import figures  # noqa: E402


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def table(page, first):
    """The rows, without the head, of a page's table whose head begins with a cell."""
    return next(rows for rows in figures.tables_of(read(page)) if rows[0][0] == first)[1:]


def code_words(text):
    return re.findall(r"`([^`]+)`", text)


@functools.cache
def help_of(command):
    return subprocess.run([BUILD / "isocost", command, "--help"], check=True, text=True, stdout=subprocess.PIPE).stdout


def default_of(shown, flag):
    """The default of a flag in brackets at the end of its help; empty if there is none."""
    own = next(part for part in re.split(r"\n(?=  -|\n)", shown) if part.startswith(f"  {flag} "))
    found = re.search(r" \[([^\]]*)\]$", own.rstrip())
    return found[1] if found else ""


class Settings(unittest.TestCase):
    def test_defaults_are_those_of_serve_and_check(self):
        """The page's defaults hold for files and Python; it names the one that differs on the command line."""
        different = {}
        rows = table("docs/config.md", "key")
        self.assertGreater(len(rows), 50)
        for key, flag, _, default, _ in rows:
            if (printed := default_of(help_of("serve"), flag.strip("`"))) != default.strip("`"):
                different[key.strip("`")] = printed
        self.assertEqual(different, {"isolate": "on"})
        self.assertEqual(default_of(help_of("check"), "--isolate"), "on")
        self.assertIn("`isocost serve` and `isocost check` have `isolate = on` unless told otherwise",
                      " ".join(read("docs/config.md").split()))


class Formats(unittest.TestCase):
    SOURCE = "decode/shape/media_formats.cc"

    def test_extensions_are_those_that_are_read(self):
        rows = table("docs/shards.md", "modality")
        listed = sorted(word for row in rows for word in code_words(row[2]))
        self.assertEqual(listed, sorted(re.findall(r'\{"(\w+)", MediaFormat::', read(self.SOURCE))))

    def test_formats_are_those_that_are_read(self):
        names = re.findall(r'Format\{"([^"]+)"', read(self.SOURCE))
        self.assertGreater(len(names), 30)
        shown = " ".join(row[1] for row in table("docs/shards.md", "modality"))
        for name in names:
            if name != "tokens":  # those of a model's tokenizer, which are in no shard
                self.assertIn(re.sub(" (?:text|video|sound|with sound only)$", "", name), shown)

    def test_versions(self):
        for source, (page, sentence) in VERSIONS.items():
            number = re.search(r"\bk(?:Protocol|Profile)?Version = (\d+)", read(source))[1]
            self.assertIn(sentence.format(number), read(page), f"{source} has version {number}")


class Families(unittest.TestCase):
    def test_families_are_those_of_the_code(self):
        source = read("decode/recipes/families.cc")
        types = dict(re.findall(r"std::array (k\w+Types) = \{(.*?)\};", source, re.DOTALL))
        entries = re.findall(r'FamilyEntry\{"(\w+)", (k\w+Types),', source)
        rows = table("docs/models.md", "family")
        listed = {code_words(row[0])[0]: [word for word in code_words(row[1])] for row in rows}
        self.assertEqual(sorted(listed), sorted(name for name, _ in entries))
        for name, own in entries:
            of_code = set(re.findall(r'ModelType\{"(\w+)"', types[own]))
            self.assertTrue(of_code, own)
            self.assertLessEqual(of_code, set(listed[name]))
        self.assertIn(f"{NUMBERS[len(entries)]} families of transformers", read("README.md"))


class Arithmetic(unittest.TestCase):
    """The built-in profile: sums are right, and predictions follow from them."""

    SUM = re.compile(r"([\d(](?:[\d.,·²()+/ ]|5 µs)*) = \**(\d[\d.,]*(?:e9)?)")
    LOAD = 1000  # patches, positions and tokens, a sequence each

    def test_sums(self):
        checked = 0
        for page in ("docs/cost_model.md", "docs/simulator.md"):
            for written, result in self.SUM.findall(read(page)):
                plain = written
                for sign, other in ((",", ""), ("·", "*"), ("²", "**2"), ("5 µs", "5e-3")):
                    plain = plain.replace(sign, other)
                value = eval(plain)
                digits, _, giga = result.rstrip(".,").partition("e")
                value /= 10**9 if giga else 1
                self.assertTrue(figures.rounds_to(f"{value:f}", digits), f"{page}: {written} = {value}")
                checked += 1
        self.assertGreaterEqual(checked, 18)

    def test_predictions(self):
        modules = json.loads(subprocess.run(
            [BUILD / "isocost", "predict", *(f"--{name}={self.LOAD}" for name in ("vision", "audio", "llm")), "--json"],
            check=True, stdout=subprocess.PIPE).stdout)["modules"]
        rows = {row[0]: row[1:] for row in table("docs/cost_model.md", "forward FLOP")}
        page = read("docs/simulator.md")
        flops = float(re.search(r"× 40 % = ([\d.]+) TFLOP/s", read("docs/cost_model.md"))[1]) * 1e12
        for column, name in enumerate(("vision", "audio", "llm")):
            terms = modules[name]["terms_s"]
            for row, term, load in (("**per unit**", "units", self.LOAD),
                                    ("**per unit squared**", "attention", self.LOAD**2)):
                flop = int(re.search(r"= \*\*([\d,]+)\*\*", rows[row][column])[1].replace(",", ""))
                self.assertAlmostEqual(3 * flop * load / flops, terms[term], delta=1e-9 * terms[term])
            shown = re.search(r"([\d.]+) ms", rows["per microbatch"][column])[1]
            self.assertTrue(figures.rounds_to(f"{1000 * terms['fixed']:f}", shown), name)
        for name, model in (("llm", "Qwen2.5-7B"), ("vision", "SigLIP-so400m")):
            billions = re.search(rf"\| {model} \|.* = ([\d.]+)e9 \|", page)[1]  # two bytes a parameter
            self.assertTrue(figures.rounds_to(str(modules[name]["bytes"]["weights"] / 2e9), billions), name)
        activations = re.search(r"([\d,]+) bytes for Qwen2\.5-7B, ([\d,]+) for SigLIP", page).groups()
        self.assertEqual([int(shown.replace(",", "")) for shown in activations],
                         [modules[name]["bytes"]["activations_per_layer"] / self.LOAD for name in ("llm", "vision")])


class Attributes(unittest.TestCase):
    """The attributes of a layout in Python."""

    def test_those_of_a_layout(self):
        page = " ".join(read("docs/layout.md").split())
        keys = {code_words(word)[0].split(".")[0] for row in table("docs/layout.md", "key")
                for word in row[0].split(", ") if word.startswith("`") and not word.startswith("`.")}
        listed = re.search(r"`isocost.Layout` has the keys above but `version` as attributes (.*?)\. It is equal", page)
        others = code_words(re.sub(r"\([^)]*\)", "", listed[1]))
        expected = {key for key in keys if not key.startswith("…")} - {"version"} | set(others)
        file = ROOT / "tests/compatibility/0.1/layout.json"
        script = ("import isocost, sys; layout = isocost.Layout(sys.argv[1]); "
                  "print(*(n for n in dir(layout) if n[0] != '_' and not callable(getattr(layout, n))))")
        done = subprocess.run([sys.executable, "-B", "-c", script, file], check=True, text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
        self.assertEqual(set(done.stdout.split()), expected)


class Node(unittest.TestCase):
    """The answers of a node that serves two ranks, before they come."""

    @classmethod
    def setUpClass(cls):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-statements-"))
        cls.addClassCleanup(shutil.rmtree, directory)
        for i in range(8):
            (directory / f"{i}.txt").write_text("A sample.")
        program = str(BUILD / "isocost")
        subprocess.run([program, "make-shards", directory, directory / "shards"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = open(directory / "log", "w+")
        cls.addClassCleanup(log.close)
        node = subprocess.Popen([program, "serve", "--data", directory / "shards", "--ranks", "2", "--metrics", "0",
                                 "--bind", f"ipc://{directory}/node"], stdout=log, stderr=subprocess.STDOUT)
        cls.addClassCleanup(node.wait)
        cls.addClassCleanup(node.kill)
        end = time.monotonic() + TIMEOUT
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)", (directory / "log").read_text())) is None:
            if node.poll() is not None or time.monotonic() > end:
                raise AssertionError((directory / "log").read_text())
            time.sleep(0.02)
        cls.port = found[1]
        cls.top = json.loads(subprocess.run([program, "top", cls.port, "--json"], check=True, timeout=TIMEOUT,
                                            stdout=subprocess.PIPE).stdout)

    def page(self, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{name}", timeout=TIMEOUT) as answer:
            return answer.read().decode()

    def test_keys_of_top(self):
        page = read("docs/metrics.md")
        paragraph = re.search(r"`top --json` prints (.*?)\n\n(.*?)\n\n", page, re.DOTALL)
        rows = dict(figures.table_of(paragraph[2])[1:])
        names = [word for word in code_words(paragraph[1]) if word != "/status.json"]
        self.assertEqual(set(self.top), {*names, "modules", "ranks"})
        of_modules = set(code_words(rows["`modules`, by name"]))
        of_ranks = set(code_words(rows["`ranks`, a list in order"]))
        module, rank = self.top["modules"]["llm"], self.top["ranks"][0]
        self.assertEqual(set(module), of_modules)
        self.assertEqual({*rank, *rank["modules"]["llm"], "place"}, of_ranks)  # only a layout's receivers have a place

    def test_status_has_the_metrics_of_the_table(self):
        listed = {code_words(row[0])[0].removeprefix("isocost_") for row in table("docs/metric_list.md", "metric")}
        status = json.loads(self.page("status.json"))
        self.assertLessEqual(set(status["node"]) | set(status["modules"]["llm"]) | set(status["ranks"]), listed)

    def test_series_of_metrics(self):
        """The page says how many series there are, of R ranks about A + B R."""
        page = " ".join(read("docs/metrics.md").split())
        shown = re.search(r"`/metrics` of R ranks has about (\d+) \+ (\d+) R series", page)
        series = sum(not line.startswith("#") for line in self.page("metrics").splitlines())
        self.assertAlmostEqual(series, int(shown[1]) + 2 * int(shown[2]), delta=20)


if __name__ == "__main__":
    unittest.main()
