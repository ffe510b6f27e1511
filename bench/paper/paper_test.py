"""The smallest row of docs/benchmarks/paper.json is what ./run bench paper prints, and the page is what page.py writes.

Environment: ISOCOST_PAPER_PLANS is the program."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "benchmarks"
MEASURED = {"plan_s", "search_s"}
SAME = 1e-9  # compilers may differ in the last bits

sys.path.insert(0, str(HERE))
import measures  # noqa: E402
import page  # noqa: E402
import scheduler  # noqa: E402


def unmeasured(value):
    """The value without what a clock gave."""
    if isinstance(value, dict):
        return {key: unmeasured(member) for key, member in value.items() if key not in MEASURED}
    return [unmeasured(member) for member in value] if isinstance(value, list) else value


class Page(unittest.TestCase):
    def setUp(self):
        self.record = json.loads((PAGE / "paper.json").read_text(encoding="utf-8"))

    def assert_same(self, printed, kept, place):
        self.assertEqual(type(printed), type(kept), place)
        if isinstance(printed, dict):
            self.assertEqual(printed.keys(), kept.keys(), place)
            for key in printed:
                self.assert_same(printed[key], kept[key], f"{place}.{key}")
        elif isinstance(printed, list):
            self.assertEqual(len(printed), len(kept), place)
            for i, (one, other) in enumerate(zip(printed, kept)):
                self.assert_same(one, other, f"{place}.{i}")
        elif isinstance(printed, float):
            self.assertLessEqual(abs(printed - kept), SAME * abs(kept), f"{place}: {printed} and {kept}")
        else:
            self.assertEqual(printed, kept, place)

    def test_the_smallest_row_is_what_the_command_prints(self):
        kept = next(row for row in self.record["rows"] if row["name"] == "smallest")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", str(HERE / "paper.py"), "--row", "smallest", "--program",
                                   os.environ["ISOCOST_PAPER_PLANS"], "--work", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_same(unmeasured(json.loads(done.stdout)), unmeasured(kept), "smallest")
        for column in ("published_published", "published_released", "ours_published"):
            self.assertTrue(all(kept["columns"][column]["optimal"]), column)

    def test_the_page_and_its_pictures_are_of_the_record(self):
        with tempfile.TemporaryDirectory() as folder:
            page.write(self.record, pathlib.Path(folder))
            for path in pathlib.Path(folder).iterdir():
                self.assertEqual(path.read_text(encoding="utf-8"), (PAGE / path.name).read_text(encoding="utf-8"),
                                 f"{path.name}: python3 bench/paper/paper.py --page-only")

    def test_ours_is_at_least_as_fast_as_the_published_method(self):
        for row in self.record["rows"]:
            self.assertTrue(all(ratio >= 1 for ratio in measures.ratios(row, "published_published")), row["name"])


    def test_steps_are_near_the_bound_in_the_mean(self):
        over = [measures.mean(measures.over_bound(row)) for row in self.record["rows"]]
        self.assertLessEqual(measures.mean(over), 1.1)


class Scheduler(unittest.TestCase):
    def test_lpt_gives_every_group_a_sample_and_the_largest_ones_first(self):
        costs = [(1, 9), (8, 1), (2, 2), (3, 1)]
        groups = scheduler.lpt(costs, 2)
        self.assertEqual(set(groups), {0, 1})
        self.assertNotEqual(groups[0], groups[1])

    def test_groups_are_dealt_to_replicas_in_turn(self):
        layout = {"llm": {"data": 2}, "microbatches": 2}
        self.assertEqual(scheduler.microbatches([0, 1, 2, 3], layout), [[0], [2], [1], [3]])


if __name__ == "__main__":
    unittest.main()
