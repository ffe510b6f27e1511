"""The demo's numbers and picture, from made-up traces."""

import copy
import pathlib
import sys
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "examples/demo")]

import demo_traces  # noqa: E402
import prepare_media  # noqa: E402
import report  # noqa: E402
import timeline  # noqa: E402

UNEVEN = [[3.0, 1.0], [1.0, 0.5], [0.5, 1.5], [2.0, 2.0]]
EVEN = [[2.0, 2.0], [0.75, 0.75], [1.0, 1.0], [2.0, 2.0]]
SAMPLES = 4 * 2 * 2 * 2


def make_run(seconds=UNEVEN, lines=None, planned=SAMPLES, in_dataset=SAMPLES, policy="in-order", **counts):
    return report.Run(policy, lines or demo_traces.trace(seconds), demo_traces.summary(planned, **counts),
                      in_dataset, limited=False)


def make_passes(**replaced):
    """A pass of each of report.PASSES: in-order is uneven, the others are even. `replaced`: {policy: its pass}."""
    made = {"in-order": make_run(), "tokens": make_run(EVEN, policy="tokens"), "cost": make_run(EVEN, policy="cost")}
    return [{**made, **replaced}[policy] for policy in report.PASSES]


class Statistics(unittest.TestCase):
    def test_times_leave_the_first_step_out(self):
        run = make_run()
        numbers = report.summarise([run, run], run)
        self.assertEqual((numbers["passes"], numbers["steps"]), (2, 8))
        self.assertEqual(numbers["step_seconds"]["mean_of_passes"], [numbers["step_seconds"]["mean"]] * 2)
        self.assertAlmostEqual(numbers["compute_seconds"], (1.5 + 2.0 + 4.0) / 6)
        self.assertAlmostEqual(numbers["cpu_seconds"], 0.9 * numbers["compute_seconds"])
        # steps 2 to 4 take 1.03, 1.53 and 2.03 s
        self.assertAlmostEqual(numbers["step_seconds"]["mean"], 1.53)
        self.assertAlmostEqual(numbers["step_seconds"]["p50"], 1.53)
        self.assertAlmostEqual(numbers["step_seconds"]["p95"], 2.03)
        self.assertAlmostEqual(numbers["idle_fraction"], (0.5 + 1.0) / (2 * 3 * 1.53))
        self.assertAlmostEqual(numbers["data_wait_fraction"], 6 * 0.01 / (2 * 3 * 1.53))
        self.assertAlmostEqual(numbers["max_over_mean"], (1 / 0.75 + 1.5 / 1.0 + 1.0) / 3)

    def test_balanced_ranks_do_not_idle(self):
        run = make_run(EVEN)
        numbers = report.summarise([run], run)
        self.assertAlmostEqual(numbers["idle_fraction"], 0)
        self.assertEqual(numbers["max_over_mean"], 1)

    def test_prediction_errors_by_module(self):
        errors = report.prediction_error_ratio([make_run()])
        self.assertAlmostEqual(errors["vision"], 0.1)
        self.assertEqual(errors["llm"], 0)
        self.assertIsNone(errors["audio"])  # never measured

    def test_only_the_latest_predictions_count(self):
        lines = demo_traces.trace([[1.0, 1.0]] * 100)
        for line in lines:
            if line["type"] == "microbatch" and line["step"] < 30:
                line["predicted"]["llm"] = 50.0
        self.assertEqual(report.prediction_error_ratio([make_run(lines=lines)])["llm"], 0)

    def test_losses_are_means_of_four_steps(self):
        run = make_run([[1.0, 1.0]] * 10)
        loss = report.summarise([run], run)["loss"]
        self.assertEqual((loss["first"], loss["last"]), (3.5, -2.5))

    def test_noise_is_how_far_equal_work_differs(self):
        slower = demo_traces.trace(UNEVEN)
        for line in slower:
            if line["type"] == "microbatch":
                line["seconds"] = {module: 1.5 * seconds for module, seconds in line["seconds"].items()}
        noise = report.noise([make_run(), make_run(lines=slower)])
        self.assertAlmostEqual(noise["vision"], 2 * 0.5 / 2.5)
        self.assertIsNone(noise["audio"])
        self.assertEqual(report.noise([make_run()]), {"vision": None, "audio": None, "llm": None})

    def test_percentiles_interpolate(self):
        self.assertEqual(report.percentile([4, 1, 3, 2], 0.5), 2.5)
        self.assertEqual(report.percentile([7], 0.95), 7)
        self.assertEqual(report.percentile([1, 2, 3], 1), 3)

    def test_speedup_compares_mean_steps(self):
        result = report.compare(make_passes())
        self.assertEqual(list(result["speedup"]), ["tokens", "cost"])
        speedup = result["speedup"]["cost"]
        self.assertAlmostEqual(speedup["steps"], 1.53 / 1.28)
        self.assertAlmostEqual(speedup["by_compute"], (1.5 + 2.0 + 4.0) / (1.5 + 2.0 + 4.0))
        self.assertAlmostEqual(speedup["by_idle"] * speedup["by_compute"], speedup["steps"])
        self.assertEqual(set(result), {"policies", "speedup"})


class Counting(unittest.TestCase):
    def test_all_delivered(self):
        self.assertEqual(report.count_samples(make_run()),
                         {"delivered": SAMPLES, "lost": 0, "duplicated": 0, "bad": 0})

    def test_a_sample_that_never_came_is_lost(self):
        run = make_run(planned=SAMPLES + 1, in_dataset=SAMPLES + 1)
        self.assertEqual(report.count_samples(run)["lost"], 1)

    def test_a_sample_that_the_node_forgot_is_lost(self):
        self.assertEqual(report.count_samples(make_run(in_dataset=SAMPLES + 3))["lost"], 3)

    def test_bad_and_dropped_samples_are_not_lost(self):
        run = make_run(in_dataset=SAMPLES + 5, bad=2, dropped=3)
        self.assertEqual(report.count_samples(run)["lost"], 0)
        self.assertEqual(report.count_samples(run)["bad"], 2)

    def test_a_second_delivery_is_a_duplicate(self):
        lines = demo_traces.trace(UNEVEN)
        again = copy.deepcopy(lines[0])
        lines.append(again)
        self.assertEqual(report.count_samples(make_run(lines=lines))["duplicated"], 2)

    def test_a_repeat_without_weight_is_none(self):
        lines = demo_traces.trace(UNEVEN)
        lines[0]["samples"].append([5, 0.0])
        self.assertEqual(report.count_samples(make_run(lines=lines))["duplicated"], 0)

    def test_problems_are_named(self):
        runs = make_passes()
        self.assertEqual(report.problems(runs, report.compare(runs)), [])
        lines = demo_traces.trace(EVEN)
        lines[0]["samples"][0][0] = 999
        next(line for line in lines if line["type"] == "step")["loss"] *= 1.01
        runs = make_passes(cost=make_run(lines=lines, planned=SAMPLES + 1, policy="cost"))
        words = report.problems(runs, report.compare(runs))
        for problem in ("lost", "different global batches", "loss differs by 1.0%"):
            self.assertTrue(any(problem in w for w in words), words)


class Policies(unittest.TestCase):
    RUNS = make_passes()

    def test_each_has_a_column_of_the_table(self):
        lines = report.table(report.compare(self.RUNS)).splitlines()
        self.assertEqual(lines[0].split(), ["in-order", "tokens", "cost"])
        self.assertEqual(lines[1].split(), ["passes,", "steps", "2,", "8", "1,", "4", "2,", "8"])
        self.assertEqual(lines[-1], "cost: steps are 1.20 times as fast as in-order: 1.20 times by idle time, "
                                    "1.00 times by compute time")

    def test_each_has_a_panel_of_the_picture(self):
        text = timeline.draw(self.RUNS, report.compare(self.RUNS))
        for label in (">In order<", ">Tokens<", ">Cost<", ">Cost: 1.20× as fast<"):
            self.assertIn(label, text)


class Picture(unittest.TestCase):
    def setUp(self):
        runs = make_passes()
        self.text = timeline.draw(runs, report.compare(runs))
        self.root = xml.etree.ElementTree.fromstring(self.text)

    def of_class(self, name):
        return [e for e in self.root.iter("{http://www.w3.org/2000/svg}rect")
                if e.get("class") == name]

    def test_stands_alone(self):
        # librsvg and Inkscape know no CSS variables
        for word in ("<script", "href", "url(http", "@import", "var("):
            self.assertNotIn(word, self.text)

    def test_idle_is_as_wide_as_it_was_long(self):
        idle = [float(e.get("width")) + 1 for e in self.of_class("idle")][1:]  # first: the legend
        vision = {float(e.get("width")) for e in self.of_class("vision")}
        self.assertEqual(len(idle), 2)
        # Rank 0 waits 1 s in step 3, rank 1 half a second in step 2; a block of 0.5 s has half of
        # a microbatch of 1 s, its vision.
        self.assertAlmostEqual(max(idle) / min(idle), 2, places=1)
        self.assertAlmostEqual(max(vision) / min(idle), 1, places=1)

    def test_blocks_lie_within_the_page(self):
        for rect in self.root.iter("{http://www.w3.org/2000/svg}rect"):
            if rect.get("x"):
                self.assertLessEqual(float(rect.get("x")) + float(rect.get("width")),
                                     timeline.WIDTH + 0.5)


class Media(unittest.TestCase):
    def test_captions_by_language(self):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "cat.txt"
            file.write_text("A cat.\nde.utf8=Eine Katze = ein Tier.\nfr.utf8=\nnonsense\n")
            self.assertEqual(prepare_media.read_captions(file),
                             {"en": "A cat.", "de": "Eine Katze = ein Tier."})

    def test_clips_fit_their_videos_and_follow_from_the_seed(self):
        import random
        clips = prepare_media.choose_clips(random.Random(0))
        self.assertEqual(clips, prepare_media.choose_clips(random.Random(0)))
        self.assertNotEqual(clips, prepare_media.choose_clips(random.Random(1)))
        for video, start, length, _, _ in clips:
            self.assertGreaterEqual(start, 0)
            self.assertLessEqual(start + length, prepare_media.VIDEOS[video][0])
            self.assertGreaterEqual(length, 1)
        lengths = sorted(c[2] for c in clips)
        self.assertGreater(lengths[-1], 4 * lengths[len(lengths) // 2])  # a heavy tail

    def test_shares_of_kinds_make_a_whole(self):
        self.assertEqual(sum(prepare_media.KINDS.values()), 100)


if __name__ == "__main__":
    unittest.main()
