"""bench/gpu: its parts, and the whole path on the host with tiny shapes."""

import contextlib
import importlib.util
import io
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import xml.etree.ElementTree
import zipfile

import torch

from isocost.profiling.largest_load import Trial, largest_load
from support import PROGRAM, TIMEOUT, main

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"
sys.path.insert(0, str(BENCH))
import device_loader  # noqa: E402
import limits  # noqa: E402
import models  # noqa: E402
import packed_attention  # noqa: E402
import plans  # noqa: E402
import pricing  # noqa: E402
import profiling  # noqa: E402
import replay  # noqa: E402
import run_items  # noqa: E402
import traces  # noqa: E402
import train_mllm  # noqa: E402

LAB = pathlib.Path(PROGRAM).with_name("isocost-lab")
# Imports the benchmark's profiler as of the checkout that is named.
PROFILER = """
import pathlib, sys
sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "bench" / "gpu"))
import profiling
profiling.ROOT = pathlib.Path(sys.argv[1])
profiling.profiler()
"""


def run(*arguments, environment=None):
    return subprocess.run([sys.executable, "-B", str(BENCH / "profile_mllm.py"), *arguments], capture_output=True,
                          text=True, timeout=5 * TIMEOUT, env=environment)


class Attention(unittest.TestCase):
    def test_every_path_that_runs_here_is_the_formula(self):
        shape = dict(device="cpu", dtype=torch.float32, heads=4, key_heads=2, width=8)
        for causal in (False, True):
            name, _, refused = packed_attention.choose(causal=causal, **shape)
            self.assertIn(name, packed_attention.PATHS)
            self.assertNotIn("explicit", refused)
            self.assertFalse([why for why in refused.values() if "differs" in why], refused)

    def test_a_path_that_looks_across_sequences_is_refused(self):
        def across(queries, keys, values, packing, causal):
            whole = packed_attention.packing_of([packing.units], "cpu")
            return packed_attention.explicit(queries, keys, values, whole, causal)

        error = packed_attention.disagreement(across, "cpu", torch.float32, 2, 2, 8, False)
        self.assertGreater(error, 0.04)

    def test_positions_start_anew_with_each_sequence(self):
        packing = packed_attention.packing_of([3, 1, 2], "cpu")
        self.assertEqual(packing.positions.tolist(), [0, 1, 2, 0, 0, 1])
        self.assertEqual(packing.offsets.tolist(), [0, 3, 4, 6])


class Models(unittest.TestCase):
    """A packed microbatch is what its sequences are alone."""

    def outputs(self, module, make, lengths):
        torch.manual_seed(5)
        rows = make(sum(lengths))
        packed = module(rows, packed_attention.packing_of(lengths, "cpu"))
        alone = [module(part, packed_attention.packing_of([len(part)], "cpu")) for part in rows.split(lengths)]
        return packed, alone

    def test_encoder(self):
        encoder = models.Encoder(models.TINY_ENCODER, packed_attention.explicit)
        packed, alone = self.outputs(encoder, lambda n: torch.randn(n, models.PATCH_VALUES), [5, 9, 2])
        self.assertLess(float(((packed - torch.cat(alone)).abs().max() / packed.abs().max()).detach()), 1e-4)
        packed.sum().backward()
        self.assertTrue(all(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters()))

    def test_decoder(self):
        shape = models.TINY_DECODERS["qwen2.5-7b"]
        decoder = models.Decoder(shape, packed_attention.explicit)
        packed, alone = self.outputs(decoder, lambda n: torch.randint(shape.vocabulary, (n,)), [5, 9, 2])
        self.assertAlmostEqual(float((packed / sum(alone)).detach()), 1, 4)
        packed.backward()
        self.assertTrue(all(p.grad is not None and bool(p.grad.any()) for p in decoder.parameters()))

    @unittest.skipUnless(hasattr(torch.nn.functional, "rms_norm"), "torch 2.4 and later know the kernels' shapes")
    def test_full_shapes_forward_and_backward_on_no_device(self):
        kind = {"device": "meta", "dtype": torch.bfloat16}
        for path in (packed_attention.aten_flash, packed_attention.sdpa_by_sequence):
            encoder = models.Encoder(models.ENCODER, path, **kind)
            models.encoder_inputs(encoder)([729] * 32 + [1024])().sum().backward()
            self.assertEqual(encoder.patch.weight.grad.shape, (1152, 588))
            for name, millions in (("qwen2.5-0.5b", 494), ("qwen2.5-7b", 7616)):  # 0.49 and 7.6 billion, as published
                decoder = models.Decoder(models.DECODERS[name], path, **kind)
                models.decoder_inputs(decoder)([6332, 358, 87])().backward()
                self.assertEqual(round(sum(p.numel() for p in decoder.parameters()) / 1e6), millions)
                self.assertTrue(all(p.grad is not None for p in decoder.parameters()))

    def test_flop_are_those_of_the_stated_default(self):  # the table in docs/cost_model.md
        encoder, decoder = models.ENCODER, models.DECODERS["qwen2.5-7b"]
        self.assertEqual(encoder.flop([1]), 823_495_680 + 124_416)
        self.assertEqual(decoder.flop([1]), 14_140_571_648 + 200_704)
        self.assertEqual(decoder.flop([10, 20]) - 30 * 14_140_571_648, 500 * 200_704)


class Plans(unittest.TestCase):
    COSTS = [((i * 37) % 101 + 1) ** 2 for i in range(64)]

    def loads(self, plan):
        return [sum(self.COSTS[i] for part in parts for i in part) for parts in plan]

    def test_every_sample_once_and_no_rank_without(self):
        for plan in (plans.in_order(64, 8, 4), plans.by_cost(self.COSTS, 8, 4), plans.by_cost(self.COSTS, 8, 4, LAB)):
            self.assertEqual(sorted(i for parts in plan for part in parts for i in part), list(range(64)))
            self.assertEqual([len(parts) for parts in plan], [4] * 8)
            self.assertTrue(all(any(parts) for parts in plan))

    def test_cost_is_near_the_mean_with_and_without_the_program(self):
        mean = sum(self.COSTS) / 8
        self.assertGreater(max(self.loads(plans.in_order(64, 8, 4))), 1.2 * mean)
        self.assertLess(max(self.loads(plans.by_cost(self.COSTS, 8, 4))), 1.1 * mean)
        self.assertLess(max(self.loads(plans.by_cost(self.COSTS, 8, 4, LAB))), 1.02 * mean)

    def test_few_samples_leave_microbatches_empty(self):
        plan = plans.by_cost([5.0, 1.0, 1.0], 2, 2)
        self.assertEqual(sorted(len(part) for parts in plan for part in parts), [0, 1, 1, 1])

    def test_the_slowest_rank_sets_the_step(self):
        slowest, idle = plans.step([1.0, 2.0, 4.0, 1.0])
        self.assertEqual((slowest, idle), (4.0, 0.5))

    def test_the_replay_fits_the_time(self):
        for mean_s, seconds, expected in ((0.01, 100, (256, 8)), (0.1, 100, (128, 1)), (0.5, 150, (64, 1)),
                                          (1, 150, (32, 1))):
            self.assertEqual(tuple(replay.affordable(mean_s, seconds, 256, 32, 8)), expected)
        with self.assertRaisesRegex(replay.TooSlow, "raise --budget"):
            replay.affordable(10, 150, 256, 32, 8)


class Pricing(unittest.TestCase):
    WEIGHTS = (2e-3, 0.0, 3e-6, 4e-10)

    def seconds(self, length, count):
        return sum(a * b for a, b in zip(self.WEIGHTS, pricing.terms_of([length] * count)))

    def points(self):
        return [{"sequences": count, "units": length * count, "units_squared": length * length * count,
                 "forward_s": self.seconds(length, count), "backward_s": 0.0}
                for length in (64, 256, 1024, 4096) for count in (1, 4, 16)]

    def test_the_form_is_found_again(self):
        for found, hidden in zip(pricing.fit(self.points()), self.WEIGHTS):
            self.assertAlmostEqual(found, hidden, delta=1e-6 * hidden + 1e-12)

    def test_the_form_and_the_program_agree_where_the_form_holds(self):
        nothing = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}
        measured = {"points": [{**point, "spread": 0.0, "peak_bytes": 0} for point in self.points()]}
        profile = {"version": 1, "unit": "seconds", "modules": {"vision": measured, "audio": nothing, "llm": measured}}
        loads = [{"vision": [256, 256, 700], "llm": [4096]}, {"vision": [], "llm": [100]}]
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "profile.json"
            file.write_text(json.dumps(profile))
            ours = pricing.ProgramPrices(PROGRAM, file).price(loads)
        for by_program, by_form, load in zip(ours, pricing.FormPrices(profile).price(loads), loads):
            self.assertEqual(set(by_program), {module for module in load if load[module]})
            for module, price in by_program.items():
                self.assertAlmostEqual(price.seconds / by_form[module].seconds, 1, delta=0.05)

    def test_one_throughput_is_exact_at_its_point_alone(self):
        price = pricing.OneThroughput(self.points(), sum, 300)
        self.assertEqual((price.length, price.count), (256, 16))
        self.assertAlmostEqual(price.seconds([256] * 16), self.seconds(256, 16))
        self.assertLess(price.seconds([64]), self.seconds(64, 1) / 2)


class Traces(unittest.TestCase):
    def test_sequences_add_up_to_the_files_numbers(self):
        read = traces.read()
        self.assertEqual(read["videos"][0].vision, (729,) * 32)
        self.assertEqual(read["documents"][0], traces.Sample((1024,), 358))
        self.assertTrue(all(n > 0 for samples in read.values() for sample in samples for n in sample.vision))

    def test_a_seed_gives_the_same_samples(self):
        read = traces.read()
        self.assertEqual(traces.Mixture(read, 3).draw(50), traces.Mixture(read, 3).draw(50))
        self.assertNotEqual(traces.Mixture(read, 3).draw(50), traces.Mixture(read, 4).draw(50))

    def test_one_trace_alone(self):
        read = traces.read()
        documents = set(read["documents"])
        self.assertLessEqual(set(traces.Mixture(read, 3, "documents").draw(50)), documents)
        self.assertFalse(set(traces.Mixture(read, 3).draw(50)) <= documents)


class RunItems(unittest.TestCase):
    """bench/gpu/all.sh, with items that are short scripts."""

    IDENTITY = {"wheel": "a.whl", "hardware": "a GPU"}

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.results = self.folder / "results"
        self.results.mkdir()

    def item(self, name, body, seconds=20, needs=None):
        """An item that appends its name to the file `ran`, and then does what `body` says."""
        script = self.folder / f"{name}.py"
        script.write_text(f"import pathlib, sys, time\nunfinished = pathlib.Path(sys.argv[-1])\n"
                          f"with open({str(self.folder / 'ran')!r}, 'a') as file: file.write('{name} ')\n{body}\n")
        return run_items.Item(name, seconds, [str(script)], needs)

    def run_all(self, items, budget=100.0, identity=None):
        (self.folder / "ran").write_text("")
        runner = run_items.Runner(sys.executable, self.results, identity or self.IDENTITY, {"commit": "c"}, os.environ)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            runner.run(items, time.monotonic() + budget)
        return runner, (self.folder / "ran").read_text().split(), said.getvalue()

    WORKS = "unfinished.write_text('{\"a\": 1}')"

    def test_a_result_is_kept_and_says_what_it_is_of(self):
        items = [self.item("works", self.WORKS), self.item("packed", self.WORKS)]
        runner, ran, _ = self.run_all(items)
        self.assertEqual((runner.failed, runner.left, ran), ([], [], ["works", "packed"]))
        result = json.loads((self.results / "works.json").read_text())
        self.assertEqual(result["a"], 1)
        self.assertLessEqual(self.IDENTITY.items(), result["run"].items())
        _, ran, said = self.run_all(items)
        self.assertEqual(ran, [])
        self.assertIn("works: kept", said)

    def test_results_of_another_wheel_are_not_taken(self):
        items = [self.item("works", self.WORKS)]
        self.run_all(items)
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            self.run_all(items, identity={**self.IDENTITY, "wheel": "b.whl"})
        self.assertIn("another run", said.getvalue())

    def test_what_failed_before_comes_last_and_what_does_not_fit_is_left(self):
        items = [self.item("works", "sys.exit(5)"), self.item("packed", self.WORKS),
                 self.item("long", self.WORKS, seconds=200), self.item("linear", self.WORKS)]
        runner, ran, _ = self.run_all(items)
        self.assertEqual((runner.failed, runner.left), (["works (status 5)"], ["long"]))
        self.assertEqual(ran, ["works", "packed", "linear"])
        _, ran, _ = self.run_all(items, budget=1000.0)
        self.assertEqual(ran, ["long", "works"])

    def test_what_needs_a_result_comes_behind_it(self):
        documents = self.item("documents", self.WORKS, needs="long")
        runner, ran, _ = self.run_all([documents])
        self.assertEqual((runner.left, ran), (["documents"], []))
        self.run_all([self.item("long", "sys.exit(1)"), documents])
        runner, ran, _ = self.run_all([self.item("long", self.WORKS), documents, self.item("packed", self.WORKS)])
        self.assertEqual((runner.left, ran), ([], ["packed", "long", "documents"]))

    def test_all_results_are_looked_at_before_anything_runs(self):
        self.run_all([self.item("long", self.WORKS)])
        for text, what in (("{", "is no result"), ('{"run": {}}', "another run")):
            (self.results / "long.json").write_text(text)
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                self.run_all([self.item("works", self.WORKS), self.item("packed", self.WORKS, needs="long")])
            self.assertIn(what, said.getvalue())
            self.assertEqual((self.folder / "ran").read_text(), "")

    def test_what_a_failed_item_had_measured_is_kept(self):
        self.run_all([self.item("works", f"{self.WORKS}; print('so far'); sys.exit(5)")])
        self.run_all([self.item("works", "sys.exit(6)")])
        kept = json.loads((self.results / "works.failed.json").read_text())
        self.assertEqual((kept["a"], kept["failed"], kept["said"], kept["run"]["commit"]),
                         (1, "status 5", ["so far"], "c"))
        self.run_all([self.item("works", self.WORKS)])
        self.assertEqual([file.name for file in self.results.iterdir()], ["works.json"])

    HANGS = """
import subprocess
child = subprocess.Popen(["sleep", "100"])
pathlib.Path({child!r}).write_text(str(child.pid))
time.sleep(100)"""

    def assert_ends(self, process):
        """Waits until a process is gone, or waits for its parent alone."""
        stat = pathlib.Path("/proc") / str(process) / "stat"
        end = time.monotonic() + TIMEOUT
        with contextlib.suppress(OSError):  # It is gone.
            while stat.read_text().split()[2] != "Z":
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)

    def test_what_hangs_is_cut_off_with_all_that_it_started(self):
        child = self.folder / "child"
        runner, _, _ = self.run_all([self.item("packed", self.HANGS.format(child=str(child)), seconds=5)])
        self.assertEqual(runner.failed, ["packed (cut off after 10 s)"])
        self.assert_ends(child.read_text())

    def test_an_item_ends_with_the_call(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            child, item = self.folder / f"child{number}", self.folder / f"item{number}"
            self.item("packed", f"import os\npathlib.Path({str(item)!r}).write_text(str(os.getpid()))"
                      + self.HANGS.format(child=str(child)))
            call = subprocess.Popen([sys.executable, "-B", "-c", f"""
import pathlib, signal, sys, time
sys.path.insert(0, {str(BENCH)!r})
import run_items
signal.signal(signal.SIGTERM, run_items.raise_exit)
runner = run_items.Runner(sys.executable, pathlib.Path({str(self.results)!r}), {{"hardware": ""}}, {{}}, None)
runner.run([run_items.Item("packed", 50, [{str(self.folder / "packed.py")!r}])], time.monotonic() + 100)
"""])
            end = time.monotonic() + TIMEOUT
            while not child.exists() or not child.read_text():
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            call.send_signal(number)
            call.wait(TIMEOUT)
            self.assert_ends(item.read_text())
            if number == signal.SIGTERM:
                self.assert_ends(child.read_text())
            else:  # Nobody is left who would end what the item started.
                os.kill(int(child.read_text()), signal.SIGKILL)

    def test_limits_are_judged(self):
        recorded = json.loads((BENCH.parents[1] / "docs/benchmarks/h200_own_work.json").read_text())
        missed = [limit.name for limit in limits.of("own_work", recorded) if not limit.holds]
        self.assertEqual(missed, ["fully_shard, cost of measuring"])
        waiting = json.loads((BENCH.parents[1] / "docs/benchmarks/h200_waiting.json").read_text())
        self.assertEqual([limit.holds for limit in limits.of("waiting", waiting)], [True, True])
        short = json.loads((BENCH.parents[1] / "docs/benchmarks/h200_profile_short.json").read_text())
        self.assertTrue(any("filled" in limit.name and not limit.holds for limit in limits.of("profile", short)))
        for least, most, holds in ((0.0, 0.1, [True, True]), (-0.01, 0.11, [False, False])):
            counted = {"memory": {"error_of_limited_bytes": {"least": least, "most": most}}}
            self.assertEqual([limit.holds for limit in limits.of("memory", counted)], holds)

    def wheel(self, change=None, without=None):
        """A wheel with the checkout's Python sources, of which one is changed or left out."""
        wheel = self.folder / "isocost-0.1.0.whl"
        with zipfile.ZipFile(wheel, "w") as packed:
            for file in (run_items.PACKAGE / "isocost").rglob("*.py"):
                name = str(file.relative_to(run_items.PACKAGE))
                if name != without:
                    packed.writestr(name, "MODULES = ()" if name == change else file.read_bytes())
            packed.writestr("isocost-0.1.0.dist-info/sboms/isocost.cdx.json", json.dumps(
                {"metadata": {"component": {"properties": [{"name": "isocost:commit", "value": "c"}]}}}))
        return wheel

    def test_a_wheel_of_another_commit_is_refused(self):
        self.assertEqual(run_items.check_wheel(self.wheel()), "c")
        for other in ({"change": "isocost/base/modules.py"}, {"without": "isocost/base/modules.py"}):
            wheel = self.wheel(**other)
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                run_items.check_wheel(wheel)
            self.assertIn("isocost/base/modules.py differs", said.getvalue())


class WholePath(unittest.TestCase):
    """Plans and predictions of the result. Its measurements depend on who else runs here."""

    def result(self, *arguments, environment=None):
        with tempfile.TemporaryDirectory() as directory:
            files = [pathlib.Path(directory) / name for name in ("result.json", "result.svg")]
            said = run("--device", "cpu", "--tiny", "--budget", "6s", "--json", files[0], "--svg", files[1], *arguments,
                       environment=environment)
            self.assertEqual(said.returncode, 0, said.stderr)
            xml.etree.ElementTree.parse(files[1])
            return json.loads(files[0].read_text()), said.stdout

    def check_model(self, model):
        for module in ("vision", "llm"):
            self.assertGreaterEqual(len(model["profile"]["modules"][module]["points"]), 5)
            for key in ("held_out", "filled", "replayed"):
                summary = model[key][module]
                self.assertGreater(summary["microbatches"], 0)
                for price in ("prediction", "one_throughput"):
                    self.assertTrue(all(math.isfinite(value) for value in summary[price].values()), summary)
                    self.assertGreaterEqual(summary[price]["p95"], 0)
        for step in model["steps"]:
            # Plans are made of prices of samples, which need not add up to a microbatch's exactly.
            self.assertLessEqual(step["cost"]["predicted_step_s"], 1.02 * step["in-order"]["predicted_step_s"])
            for policy in plans.POLICIES:
                self.assertEqual(len(step[policy]["ranks"]), 8)
                ranks = [rank["vision_s"] + rank["llm_s"] for rank in step[policy]["ranks"]]
                self.assertAlmostEqual(step[policy]["step_s"], max(ranks))
                self.assertAlmostEqual(step[policy]["idle_fraction"], 1 - sum(ranks) / (8 * max(ranks)))

    def test_with_the_program_and_the_package(self):
        with tempfile.TemporaryDirectory() as directory:
            earlier = pathlib.Path(directory) / "earlier.json"
            result, table = self.result()
            earlier.write_text(json.dumps(result))
            documents, _ = self.result("--trace", "documents", "--profiles", earlier)
        self.assertEqual((result["pricing"], result["balancing"], result["profiler"]),
                         ("isocost predict", "isocost-lab balance", "package"))
        self.assertEqual(list(result["models"]), ["qwen2.5-0.5b", "qwen2.5-7b"])
        for name, model in result["models"].items():
            self.check_model(model)
            self.assertIn(name, table)
            self.assertIn(model["comparisons"]["replayed"]["llm"][0]["origin"],
                          ("measured", "interpolated", "extrapolated"))
            self.check_model(documents["models"][name])
            self.assertEqual(documents["models"][name]["profile"], model["profile"])
        self.assertEqual((result["trace"], documents["trace"]), ("mixed", "documents"))

    def test_profiles_that_cannot_be_taken_are_refused(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "earlier.json"
            elsewhere = {"models": {"qwen2.5-7b": {"profile": {}}}, "tiny": True, "hardware": "another", "date": ""}
            for text, what in (("{", "not a result"), (json.dumps(elsewhere), "hardware was another"),
                               ('{"models": {}, "tiny": false}', "full shapes"),
                               ('{"models": {"qwen2.5-7b": {"skipped": ""}}, "tiny": true}', "no profile of")):
                file.write_text(text)
                said = run("--device", "cpu", "--tiny", "--profiles", file)
                self.assertEqual(said.returncode, 2)
                self.assertIn(what, said.stderr)

    def test_without_the_package(self):
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        result, _ = self.result("--models", "qwen2.5-0.5b", "--program", "/nonexistent/isocost",
                                environment=environment)
        self.assertEqual((result["pricing"], result["balancing"]), ("fitted form", "lpt"))
        self.assertEqual(result["profiler"], "checkout, its method alone compiled")
        self.assertIn("/nonexistent/isocost", result["no_program"])
        self.check_model(result["models"]["qwen2.5-0.5b"])


class LargestLoad(unittest.TestCase):
    def test_grows_past_loads_that_take_as_long_as_their_launches(self):
        """Each run takes 80 ms, or 10 us a unit if that is more, as measured on an H100."""
        class Clock:
            def __init__(self):
                self.now = 0.0

            def mark(self):
                return self.now

            def between(self, start, end):
                return end - start

            def settle(self):
                pass

            def peak_bytes(self, run):
                run()
                return 1 << 20

        clock = Clock()
        isocost_profile = types.SimpleNamespace(backward=lambda _outputs: None, Trial=Trial, largest_load=largest_load)

        def prepare(lengths):
            def forward():
                clock.now += max(0.08, 1e-5 * sum(lengths))
            return forward

        for seconds, most in ((100, 131072), (40, 32768), (1, 2048)):
            self.assertEqual(profiling.most_units(isocost_profile, clock, prepare, 2048, seconds, lambda: 1 << 40),
                             most, seconds)


class DeviceLoader(unittest.TestCase):
    def test_its_checks_hold_on_the_host(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "result.json"
            done = subprocess.run([sys.executable, "-B", str(BENCH / "device_loader.py"), "--device", "cpu", "--only",
                                   "tensors,registrations", "--json", str(file)], capture_output=True, text=True,
                                  timeout=5 * TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            checks = json.loads(file.read_text())["checks"]
        self.assertTrue(all(check["holds"] for check in checks.values()), checks)
        self.assertEqual(checks["tensors"]["native28"]["microbatches"], 12)
        self.assertGreater(checks["registrations"]["blocks_seen"], 0)

    def test_what_differs_is_told(self):
        checks = device_loader.Checks.__new__(device_loader.Checks)
        checks.torch, checks.device = torch, "cpu"
        ones = torch.ones(3)
        self.assertEqual(checks.compare("a", ones, torch.nextafter(ones, 2 * ones)), (3, 3))
        for other in (torch.full((3,), 1.001), ones.double(), torch.ones(4)):
            with self.assertRaises(device_loader.Failed):
                checks.compare("a", ones, other)


MISSING = [name for name in ("transformers", "tokenizers", "jinja2", "PIL", "numpy")
           if importlib.util.find_spec(name) is None]


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class TrainMllm(unittest.TestCase):
    def test_a_tiny_model_trains_in_every_way(self):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "result.json"
            done = subprocess.run([sys.executable, "-B", BENCH / "train_mllm.py", "--device", "cpu", "--tiny",
                                   "--seconds", "0.1", "--parts", "isocost,kept,processor", "--json", file],
                                  capture_output=True, text=True, timeout=5 * TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            ways = json.loads(file.read_text())["ways"]
        for name in ("isocost", "kept", "processor"):
            own = ways[name]
            self.assertGreaterEqual(own["steps"], 1)
            self.assertGreater(own["tokens_per_s"], 0)
            self.assertLess(own["blocked_share"], 1)
            self.assertGreaterEqual(own["idle_share"], 0)
        self.assertLess(ways["kept"]["blocked_share"], 0.1)

    def test_flop_are_counted_by_hand(self):
        text = types.SimpleNamespace(hidden_size=8, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=3,
                                     intermediate_size=16, vocab_size=10)
        vision = types.SimpleNamespace(hidden_size=4, depth=2, intermediate_size=6, fullatt_block_indexes=[1],
                                       window_size=28, patch_size=14)
        model = types.SimpleNamespace(config=types.SimpleNamespace(text_config=text, vision_config=vision))
        token = 3 * (2 * (8 * 8 + 8 * 4 + 8 * 4 + 8 * 8) + 2 * 3 * 8 * 16) + 2 * 8 * 10
        patch = 2 * (2 * 4 * 4 * 4 + 2 * 3 * 4 * 6)
        attention = 2 * 3 * 8 * (5 * 5 + 1) + 4 * 4 * (16 * 16 + 16 * 4)
        self.assertEqual(train_mllm.Model.flop(model, {"llm": [5, 1], "vision": [16]}),
                         3 * (6 * token + 16 * patch + attention))


class BadInput(unittest.TestCase):
    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU here")
    def test_no_gpu(self):
        said = run()
        self.assertEqual(said.returncode, 2)
        self.assertIn("torch finds no CUDA GPU", said.stderr)
        self.assertIn("--device cpu --tiny", said.stderr)

    def test_neither_package_nor_compiler(self):
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with tempfile.TemporaryDirectory() as directory:
            checkout = pathlib.Path(directory)
            for folder in ("base", "bench", "costmodel", "trainer_adapter"):
                (checkout / folder).symlink_to(BENCH.parents[1] / folder)
            said = subprocess.run([sys.executable, "-B", "-c", PROFILER, checkout], capture_output=True, text=True,
                                  timeout=TIMEOUT, env={**environment, "CXX": "/nonexistent/c++"})
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn("/nonexistent/c++ -std=c++20", said.stderr)
        self.assertIn("That needs a C++20 compiler, Python's headers, pybind11 (torch has it) and tl/expected.hpp",
                      said.stderr)

    def test_arguments(self):
        for arguments, says in ((["--budget", "soon"], "not a duration"), (["--budget", "0s"], "not a duration"),
                                (["--models", "gpt"], "there is no model 'gpt'"),
                                (["--ranks", "0"], "not a whole number"),
                                (["--global-batch-size", "16"], "less than a sample for each")):
            said = run(*arguments)
            self.assertEqual(said.returncode, 2)
            self.assertIn(says, said.stderr)


if __name__ == "__main__":
    main()
