"""bench/peers: its clock, comparison, statistics, table, JSON and bars with made-up records and batches, and that
settings.md states what runs. The peers are not needed."""

import contextlib
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
import urllib.request
import xml.etree.ElementTree

import torch

from support import main

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(BENCH))
import bars  # noqa: E402
import measuring  # noqa: E402
import nginx  # noqa: E402
import process  # noqa: E402
import report  # noqa: E402
from contenders import CONTENDERS, cpp_trainers  # noqa: E402
from contenders.settings import SETTINGS  # noqa: E402
from works import WORKS, work_of  # noqa: E402


def run(seconds, cpu_s):
    return {"seconds": seconds, "cpu_s": cpu_s, "others_cpu_s": seconds / 5, "samples": 120, "peak_bytes": 3e8,
            "shared_bytes": 2e8}


def contender(name, *runs):
    return {"name": name, "title": CONTENDERS[name].title, "runs": list(runs),
            "difference": {"mean": 0.25, "largest": 7.0}, "tolerance": {"mean": 6, "largest": 255}}


def record():
    """Two works; in the first Isocost is twice as fast as SPDL, whose rounds are noisy."""
    fast = contender("isocost", run(1.0, 2.0), run(1.2, 2.0), run(0.8, 2.0))
    slow = contender("spdl", run(2.0, 3.0), run(6.0, 3.0), run(1.6, 3.0))
    failed = {"dali": "differs by <9>"}
    return {"date": "2026-01-02", "rounds": 3, "python": "3.11", "versions": {"spdl": "1.0"},
            "machine": {"cpu": "A & B", "cores": 2, "load_before": 0.1, "load_after": 1.9},
            "works": [{"name": "one", "title": "one <work>", "unit": "of 255", "reference": "pillow", "samples": 40,
                       "contenders": [slow, fast], "failed": failed, "cannot": {"pyav": "is for video"},
                       "programs": {"a_trainer": {"lines_of_code": 12, "libtorch": "libtorch_cpu.so"}}},
                      {"name": "two", "title": "two", "unit": "of 255", "reference": "pyav", "samples": 40,
                       "contenders": [contender("pyav", run(4.0, 4.0))], "failed": {}, "cannot": {}}]}


class Clock(unittest.TestCase):
    def test_it_runs_from_the_first_pass_to_the_last_but_one(self):
        batches = iter(range(10))
        result = process.timed(batches, 2)
        self.assertEqual(list(batches), [8, 9])  # the last pass keeps the workers busy
        self.assertGreater(result["seconds"], 0)
        self.assertGreater(result["peak_bytes"], result["shared_bytes"] // 2)

    def test_it_starts_later_after_two_passes(self):
        batches = iter(range(20))
        process.timed(batches, 2, warm_passes=2)
        self.assertEqual(next(batches), 10)

    def test_too_few_batches_are_an_error(self):
        with self.assertRaisesRegex(SystemExit, "only 7 batches came"):
            process.timed(iter(range(7)), 2)

    def test_cpu_time_of_a_loop_is_counted(self):
        begin = process.cpu_seconds()
        sum(range(3_000_000))
        self.assertGreater(process.cpu_seconds() - begin, 0.005)

    def test_cpu_time_of_a_worker_s_ended_program_is_counted(self):
        begin = process.cpu_seconds()
        script = f"{sys.executable} -c 'sum(range(10_000_000))'; echo done; read line"
        with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
            worker.stdout.readline()
            self.assertGreater(process.cpu_seconds() - begin, 0.02)
            worker.stdin.close()


@unittest.skipIf(nginx.missing(), nginx.missing())
class Served(unittest.TestCase):
    latency_s = 0.05

    def ask(self, server, method="GET", **headers):
        """(status, body, length that the server says) of an answer, which came late."""
        begin = time.monotonic()
        request = urllib.request.Request(f"{server.address}/bucket/one", method=method, headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=20) as answer:
            body = answer.read()
            self.assertGreater(time.monotonic() - begin, self.latency_s)
            return answer.status, body, int(answer.headers["Content-Length"])

    def test_get_and_head_and_ranges_are_answered_late(self):
        with tempfile.TemporaryDirectory() as directory:
            root, scratch = pathlib.Path(directory, "root"), pathlib.Path(directory, "a folder")
            (root / "bucket").mkdir(parents=True)
            (root / "bucket" / "one").write_bytes(b"0123456789")
            with nginx.serving(root, scratch, 1000 * self.latency_s) as server:
                self.assertEqual(nginx.from_json(server.json()), server)
                self.assertEqual(self.ask(server), (200, b"0123456789", 10))
                self.assertEqual(self.ask(server, "HEAD"), (200, b"", 10))
                self.assertEqual(self.ask(server, Range="bytes=2-4"), (206, b"234", 3))
            self.assertFalse(scratch.exists())
            self.assertFalse(nginx.answers(int(server.address.rpartition(":")[2])))


class Comparison(unittest.TestCase):
    work = dataclasses.replace(work_of("photographs"), scale=100)

    def test_differences_are_in_the_unit_of_the_work(self):
        mean, largest = measuring.difference(self.work, [torch.tensor([0.5, 0.5])], [torch.tensor([0.5, 0.7])])
        self.assertAlmostEqual(mean, 10, places=4)
        self.assertAlmostEqual(largest, 20, places=4)

    def refused(self, ours, reference, why):
        with self.assertRaisesRegex(measuring.Failed, why):
            measuring.difference(self.work, ours, reference)

    def test_other_sizes_and_numbers_are_refused(self):
        one = torch.zeros(2)
        self.refused([one], [torch.zeros(3)], r"\[2\] for \[3\]")
        self.refused([one], [one, one], "1 batches for 2")
        self.refused([{"a": one}], [{"a": one, "b": one}], "tensors a for a, b")

    def test_other_tokens_are_refused(self):
        self.refused([{"input_ids": torch.tensor([1, 2])}], [{"input_ids": torch.tensor([1, 3])}], "other tokens")


class CppTrainers(unittest.TestCase):
    """An epoch of two files in two passes, of one patch and of two, that a made-up trainer goes through."""

    data = types.SimpleNamespace(files=["a", "b"], all_files=["a", "b", "a", "b"])
    good = [[0, 1], [2, 3]]

    def checked(self, batches, patches=(1, 2, 1, 2)):
        said = [json.dumps({"samples": samples, "patches": [patches[each] for each in samples], "bytes": 0})
                for samples in batches]

        @contextlib.contextmanager
        def trainer(*_):
            with subprocess.Popen(["printf", "%s\\n", *said], stdout=subprocess.PIPE) as process:
                yield process

        with unittest.mock.patch.multiple(cpp_trainers, trainer=trainer, patches_of={"a": 1, "b": 2}.get):
            return cpp_trainers.checked(None, self.data, "on")

    def test_every_sample_once_is_an_epoch(self):
        self.assertEqual(self.checked(self.good), [])

    def test_samples_that_lack_or_come_twice_are_refused(self):
        for batches in ([[0, 1], [2]], [[0, 1], [2, 3], [3]], [[0, 1], [2, 2]]):
            with self.subTest(batches=batches), self.assertRaisesRegex(SystemExit, "samples came"):
                self.checked(batches)

    def test_another_number_of_patches_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "sample 2 has 3 patches, and should have 1"):
            self.checked(self.good, (1, 2, 3, 2))

    def test_the_lines_of_both_trainers_are_counted(self):
        ours, theirs = (measuring.lines_of_code(name) for name in ("torch_loader_trainer", "data_loader_trainer"))
        self.assertGreater(ours, 10)
        self.assertGreater(theirs, ours)


class Statistics(unittest.TestCase):
    def test_rates_are_medians_with_the_least_and_the_most(self):
        values = report.summary(record()["works"][0]["contenders"][1])
        self.assertEqual(values["samples_per_s"], {"median": 120.0, "least": 100.0, "most": 150.0})
        self.assertAlmostEqual(values["cpu_ms_per_sample"]["median"], 1e3 * 2 / 120)
        self.assertEqual((values["peak_mb"], values["shared_mb"]), (300, 200))

    def test_ratios_are_those_of_the_same_round(self):
        slow, fast = record()["works"][0]["contenders"]
        wall, cpu = report.ratios(slow, fast)
        self.assertAlmostEqual(wall, 2.0)  # of 2, 5 and 2; the ratio of the medians is 2, that of the means 3.2
        self.assertAlmostEqual(cpu, 1.5)

    def test_the_fastest_comes_first(self):
        self.assertEqual([each["name"] for each, _, _ in report.rows(record()["works"][0])], ["isocost", "spdl"])

    def test_without_isocost_there_are_no_ratios(self):
        ((_, _, ratio),) = report.rows(record()["works"][1])
        self.assertIsNone(ratio)


class Outputs(unittest.TestCase):
    def test_the_table_has_every_contender_and_every_reason(self):
        lines = report.table(record()).splitlines()
        (row,) = [line for line in lines if line.startswith("SPDL")]
        self.assertEqual(row.split()[1:], ["60.0", "(20.0", "to", "75.0)", "2.00×", "25.0", "1.50×", "300", "200",
                                           "0.25,", "7"])
        self.assertTrue(any(re.match(r"DALI, CPU +failed +differs by <9>", line) for line in lines))
        self.assertTrue(any(re.match(r"PyAV \+ Pillow +- +is for video", line) for line in lines))
        self.assertIn("a_trainer: 12 lines of code, libtorch_cpu.so", lines)
        self.assertTrue(any("other programs took 10% of the machine, at most 10% during" in line for line in lines))
        self.assertIn("load 0.10 before and 1.90 after; 2026-01-02; 3 rounds", lines[0])

    def test_markdown_has_a_row_for_each_work_that_isocost_does(self):
        head, rule, *rows = report.markdown(record()).splitlines()
        self.assertEqual({head.count("|"), rule.count("|")}, {5})
        self.assertEqual(rows, ["| one <work> | 120 (100 to 150) | SPDL 2.00 | SPDL 1.50 |"])

    def test_bars_are_in_proportion_and_escaped(self):
        tree = xml.etree.ElementTree.fromstring(bars.svg(record()))
        space = "{http://www.w3.org/2000/svg}"
        widths = [float(each.get("width")) for each in tree.iter(f"{space}rect") if each.get("class") != "paper"]
        self.assertEqual(len(widths), 3)
        self.assertAlmostEqual(widths[0] / widths[1], 2.0, places=2)
        words = [each.text for each in tree.iter(f"{space}text")]
        self.assertIn("one <work>", words)
        right = max(float(each.get("x")) for each in tree.iter(f"{space}text"))
        self.assertLess(right, bars.WIDTH)

    def test_records_survive_json(self):
        self.assertEqual(report.table(json.loads(json.dumps(record()))), report.table(record()))


class Documents(unittest.TestCase):
    def rows(self):
        """The cells of every row of the tables in settings.md."""
        lines = (BENCH / "settings.md").read_text(encoding="utf-8").splitlines()
        return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines
                if line.startswith("|")]

    def test_every_setting_is_on_the_page_with_a_source(self):
        stated = {(row[0], row[1], row[2]): row[3] for row in self.rows() if len(row) == 4}
        for module, settings in SETTINGS.items():
            for setting, value in settings.items():
                with self.subTest(module=module, setting=setting):
                    self.assertTrue(stated.get((module, setting, str(value))))

    def test_every_contender_has_a_row_or_a_reason_in_every_work(self):
        for work in WORKS:
            with self.subTest(work=work.name):
                self.assertEqual(work.tolerances.keys() | work.cannot.keys(), CONTENDERS.keys())
                self.assertFalse(work.tolerances.keys() & work.cannot.keys())
                self.assertIn(work.reference, CONTENDERS)

    def test_every_module_of_a_contender_is_there_and_has_settings(self):
        modules = {each.module for each in CONTENDERS.values()}
        self.assertEqual(modules, SETTINGS.keys())
        for module in modules:
            self.assertTrue((BENCH / "contenders" / f"{module}.py").exists())


if __name__ == "__main__":
    main()
