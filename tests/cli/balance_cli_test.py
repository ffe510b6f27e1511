"""isocost-lab balance from the outside: what it prints, and what it says about bad input. Argument: isocost-lab."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

LAB = ""


def balance(table, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "costs.csv"
        path.write_text(table, encoding="utf-8")
        command = [LAB, "balance", "--costs", str(path), *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class Balance(unittest.TestCase):
    TABLE = "vision,llm,bytes\n1,2,10\n3,1,20\n2,2,5\n"

    def test_a_file_of_costs_that_is_missing_is_named_with_its_flag(self):
        command = [LAB, "balance", "--costs", "nope.csv", "--bins", "2"]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((refused.returncode, refused.stderr), (2, "isocost-lab: --costs: nope.csv does not exist\n"))

    def test_json_holds_the_plan_and_its_proof(self):
        done = balance(self.TABLE, "--bins", "2", "--slowdowns", "1,1.5", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(sorted(row for rows in plan["bins"] for row in rows), [0, 1, 2])
        self.assertEqual(max(plan["loads"]), plan["makespan"])
        self.assertEqual([max(load) for load in plan["loads_by_dimension"]], plan["loads"])
        self.assertAlmostEqual(plan["gap"], plan["makespan"] / plan["lower_bound"] - 1)
        self.assertGreaterEqual(plan["solve_seconds"], 0)
        # Rows 0 and 1 on the fast bin; the 3 alone on the slow one would take 4.5.
        self.assertEqual(plan["makespan"], 4)
        self.assertTrue(plan["optimal"])
        self.assertEqual(plan["gap"], 0)
        self.assertEqual(plan["lower_bound"], 4)

    def test_the_default_is_a_table(self):
        done = balance(self.TABLE, "--bins", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("proved optimal", done.stdout)

    def test_capacity_is_kept_or_refused_naming_the_item(self):
        done = balance(self.TABLE, "--bins", "2", "--capacity", "20", "--json")
        self.assertEqual(sorted(json.loads(done.stdout)["bins"]), [[0, 2], [1]])
        done = balance("1,10\n3,20\n", "--bins", "2", "--capacity", "19", "--bytes-column", "2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("item 1 has 20 bytes", done.stderr)
        done = balance("1,10\n3,20\n", "--bins", "2", "--capacity", "19")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--bytes-column", done.stderr)

    def test_bad_input_is_named(self):
        for table, says in (
            ("1\nnan\n", "line 2: column 1: 'nan'"),
            ("1,2\n3\n", "line 2: 1 field"),
            ("a\n-1\n", "line 2: column 1 ('a'): '-1'"),
            ("", "no rows"),
            ("1\n", "1 item cannot fill 2"),
            ("1,2,3,4,5,6,7,8,9\n" * 2, "9 columns of costs"),
        ):
            done = balance(table, "--bins", "2")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)
        for options, says in (
            (("--slowdowns", "1"), "--slowdowns has 1 number, --bins is 2"),
            (("--slowdowns", "1,0.001"), "--slowdowns: bin 1"),
            (("--bytes-column", "zzz"), "--bytes-column: there is no column 'zzz'"),
            (("--capacity", "0"), "--capacity is 0"),
            (("--capacity", "many"), "--capacity"),
        ):
            done = balance(self.TABLE, "--bins", "2", *options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)
            self.assertNotIn("microbatch", done.stderr)
            self.assertNotIn("rank", done.stderr)
        done = balance("cost,bytes\n1,6\n1,6\n1,6\n", "--bins", "2", "--capacity", "10")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no packing found", done.stderr)
        self.assertNotIn("microbatch", done.stderr)
        self.assertEqual(balance(self.TABLE, "--bins", "0").returncode, 2)
        self.assertEqual(balance(self.TABLE).returncode, 2)


if __name__ == "__main__":
    LAB = sys.argv.pop(1)
    unittest.main()
