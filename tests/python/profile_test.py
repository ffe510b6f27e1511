"""The profiler's driver: on a machine with a clock of its own, and on this one with torch. The method itself is
tested in tests/costmodel/profiling_method_test.cc."""

import inspect
import json
import logging
import math
import pathlib
import subprocess
import tempfile
import time
import unittest
import weakref

import torch

import isocost
from isocost.base.hardware import hardware
from isocost.profiling.profiler import ModuleProfiler
from support import PROGRAM, TIMEOUT, ShardTest, main, torchrun


class Machine:
    """Runs nothing: forward takes the seconds that a hidden function gives, by a clock of its own."""

    def __init__(self, seconds, room=math.inf):
        self.seconds, self.room = seconds, room
        self.time = 0.0
        self.runs = 0

    def prepare(self, lengths):
        def forward():
            self.runs += 1
            if sum(lengths) > self.room:
                raise RuntimeError("CUDA out of memory. Tried to allocate much")
            self.time += self.seconds(lengths)
        return forward

    def mark(self):
        return self.time

    def between(self, start, end):
        return end - start

    def overwrite_caches(self):
        pass

    def settle(self):
        pass

    def peak_bytes(self, run):
        run()
        return 4096

    def profile(self, budget_s, lengths=(16, 4096), most_units=16384, progress=lambda line: None, **more):
        """The module's part of a model profile."""
        module = isocost.ProfiledModule(self.prepare, lengths, most_units, **more)
        profiler = ModuleProfiler("llm", module, budget_s, progress, clock=self)
        profiler.run(now=lambda: self.time)
        return profiler.to_json()


def smooth(lengths):
    return 1e-3 + sum(1e-6 * n + 1e-9 * n * n for n in lengths)


def hidden(point):
    return smooth([point["units"] // point["sequences"]] * point["sequences"])


class Grid(unittest.TestCase):
    def test_points_are_the_hidden_seconds(self):
        points = Machine(smooth).profile(1000)["points"]
        self.assertGreater(len(points), 9)
        for point in points:
            self.assertAlmostEqual(point["forward_s"] / hidden(point), 1, 6)
            self.assertEqual((point["backward_s"], point["peak_bytes"]), (0.0, 4096))
            self.assertEqual(point["units_squared"] * point["sequences"], point["units"]**2)
        lengths = [p["units"] // p["sequences"] for p in points]
        self.assertEqual((min(lengths), max(lengths), lengths), (16, 4096, sorted(lengths)))
        self.assertLessEqual(max(p["units"] for p in points), 16384)

    def test_without_time_a_point_is_timed_three_times(self):
        machine = Machine(smooth)
        points = machine.profile(1e-9)["points"]
        self.assertEqual(machine.runs, len(points) * (2 + 3))

    def test_time_is_spent_by_the_given_clock(self):
        machine = Machine(smooth)
        machine.profile(4)
        self.assertLess(machine.time, 4.5)
        longer = Machine(smooth)
        longer.profile(1e-9)
        self.assertLess(longer.time, machine.time)

    def test_inputs_are_made_once_a_load(self):
        made = []
        machine = Machine(smooth)

        def prepare(lengths):
            made.append(tuple(lengths))
            return Machine.prepare(machine, lengths)

        machine.prepare = prepare
        points = machine.profile(1e-9)["points"]
        self.assertEqual(len(made), len(points))
        self.assertEqual({(len(lengths), sum(lengths)) for lengths in made},
                         {(p["sequences"], p["units"]) for p in points})

    def test_progress_is_a_line_for_each_load(self):
        lines = []
        points = Machine(lambda lengths: 2e-3).profile(1e-9, progress=lines.append)["points"]
        self.assertEqual(len(lines), len(points))
        self.assertEqual(lines[0], "llm: 1 x 16: 2 ms ± 0.0 %")

    def test_lengths_are_multiples(self):
        points = Machine(smooth).profile(100, multiple=12)["points"]
        self.assertTrue(all(p["units"] // p["sequences"] % 12 == 0 for p in points))


class Cuts(unittest.TestCase):
    ARCHITECTURE = isocost.Architecture("an LLM", layers=8, width=64, heads=4, mlp=256)

    def test_are_measured_at_the_largest_loads_of_each_length(self):
        machine = Machine(smooth)

        def part(share):
            def prepare(lengths):
                def forward():
                    machine.time += share * smooth(lengths)
                return forward
            return prepare

        cuts = [isocost.Cut(part(0.6), tensor=2), isocost.Cut(part(0.5), layers=4)]
        module = machine.profile(1000, architecture=self.ARCHITECTURE, cuts=cuts)
        self.assertEqual([(cut["tensor"], cut.get("layers")) for cut in module["cuts"]], [(2, None), (1, 4)])
        self.assertEqual(module["architecture"]["key_value_width"], 64)
        whole = {(p["sequences"], p["units"]): p["forward_s"] for p in module["points"]}
        for cut, share in zip(module["cuts"], (0.6, 0.5)):
            self.assertEqual(len(cut["points"]), 5)
            for point in cut["points"]:
                self.assertAlmostEqual(point["forward_s"] / whole[point["sequences"], point["units"]], share, 6)
                self.assertGreater(point["units"], 16384 // 2)

    def test_without_room_are_left_out(self):
        def prepare(lengths):
            def forward():
                if lengths[0] > 1000:
                    raise RuntimeError("CUDA out of memory")
                machine.time += smooth(lengths)
            return forward

        machine = Machine(smooth)
        module = machine.profile(1000, cuts=[isocost.Cut(prepare, tensor=2)])
        self.assertEqual(len(module["cuts"][0]["points"]), 3)

    def test_that_cannot_be_are_named(self):
        module = isocost.ProfiledModule(Machine(smooth).prepare, (16, 64), 256)
        cut = isocost.Cut(module.prepare)
        for cuts, architecture, says in [([cut], None, "more than one tensor rank"),
                                         ([cut._replace(tensor=0)], None, "more than one tensor rank"),
                                         ([cut._replace(layers=4)], None, "give the module's architecture"),
                                         ([cut._replace(layers=8)], self.ARCHITECTURE, "fewer layers than it has"),
                                         ([cut._replace(layers=0)], self.ARCHITECTURE, "fewer layers than it has"),
                                         ([cut._replace(tensor=2)] * 2, None, "two cuts")]:
            with self.assertRaisesRegex(ValueError, says):
                isocost.profile_model(progress=False, llm=module._replace(cuts=cuts, architecture=architecture))

    def test_of_tensor_ranks_are_measured_together(self):
        """Two processes share a linear layer's columns, and add up over gloo."""
        script = pathlib.Path(__file__).with_name("profile_group.py")
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "profile.json"
            run = torchrun([script, file])
            profiles = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
            self.assertEqual(len(profiles), 2)
            self.assertEqual(profiles[0], profiles[1])  # what one process decides holds for both
            cut = profiles[0]["modules"]["llm"]["cuts"][0]
            self.assertEqual(cut["tensor"], 2)
            self.assertGreaterEqual(len(cut["points"]), 3)
            self.assertEqual(json.loads(file.read_text()), profiles[0])
            subprocess.run([PROGRAM, "predict", "--profile", file, "--llm", "64"], check=True, timeout=TIMEOUT,
                           stdout=subprocess.DEVNULL)


class Memory(unittest.TestCase):
    def test_the_boundary_is_recorded(self):
        module = Machine(smooth, room=5000).profile(100)
        self.assertTrue(all(p["units"] <= 5000 for p in module["points"]))
        self.assertGreater(module["out_of_memory"]["units"], 5000)
        self.assertNotIn("out_of_memory", Machine(smooth).profile(100))

    def test_inputs_that_did_not_fit_are_freed_before_the_next_are_made(self):
        alive = weakref.WeakSet()
        machine = Machine(smooth)

        class Inputs:
            pass

        def prepare(lengths):
            self.assertEqual(len(alive), 0)
            inputs = Inputs()
            alive.add(inputs)

            def forward():
                if sum(lengths) > 5000 and inputs:
                    raise MemoryError
                machine.time += smooth(lengths)
            return forward

        machine.prepare = prepare
        self.assertIn("out_of_memory", machine.profile(100))
        self.assertEqual(len(alive), 0)

    def test_none_at_the_first_point_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "llm: out of memory at its smallest load, 1 x 16"):
            Machine(smooth, room=10).profile(100)

    def test_other_failures_are_the_callers(self):
        def broken(lengths):
            raise RuntimeError("shapes differ")

        with self.assertRaisesRegex(RuntimeError, "shapes differ"):
            Machine(broken).profile(100)


class BadInput(unittest.TestCase):
    def test_is_named(self):
        module = isocost.ProfiledModule(Machine(smooth).prepare, (16, 64), 256)
        cases = [({}, "name a module"), ({"video": module}, "no module 'video'"),
                 ({"llm": module._replace(lengths=(64, 16))}, "llm: lengths"),
                 ({"llm": module._replace(multiple=0)}, "llm: multiple"),
                 ({"llm": module, "budget_s": 0}, "budget_s"),
                 ({"llm": module, "budget_s": math.nan}, "budget_s"),
                 ({"llm": module, "budget_s": math.inf}, "budget_s"),
                 ({"llm": module, "budget_s": "5m"}, "budget_s"),
                 ({"llm": module._replace(multiple=100)}, "multiple is 100; no length up to 64"),
                 ({"llm": module._replace(most_units=63)}, "most_units is 63, below the longest")]
        for arguments, says in cases:
            with self.assertRaisesRegex(ValueError, says):
                isocost.profile_model(progress=False, **arguments)

    def test_of_another_type_is_named(self):
        with self.assertRaisesRegex(TypeError, "llm is a function; give isocost.ProfiledModule"):
            isocost.profile_model(progress=False, llm=lambda ids: ids)
        module = isocost.ProfiledModule(Machine(smooth).prepare, (16, 64), 256)
        for wrong in (module._replace(lengths=(16, 64.5)), module._replace(lengths=(16, 32, 64)),
                      module._replace(most_units="256")):
            with self.assertRaisesRegex(TypeError, "llm: lengths are .* give whole numbers"):
                isocost.profile_model(progress=False, llm=wrong)
        with self.assertRaisesRegex(TypeError, r"llm: prepare\(lengths\) returned a int"):
            isocost.profile_model(progress=False, llm=isocost.ProfiledModule(sum, (16, 64), 256))

    def test_a_clock_that_stands_still(self):
        with self.assertRaisesRegex(ValueError, "stands still"):
            Machine(lambda lengths: 0.0).profile(100)

    def test_of_a_later_module_is_found_before_the_work(self):
        first = isocost.ProfiledModule(lambda lengths: self.fail("was measured"), (16, 64), 256)
        with self.assertRaisesRegex(ValueError, "llm: multiple is 0"):
            isocost.profile_model(progress=False, vision=first, llm=first._replace(multiple=0))

    def test_a_file_that_cannot_be_written_is_found_before_the_work(self):
        module = isocost.ProfiledModule(lambda lengths: self.fail("was measured"), (16, 64), 256)
        for file in ("/nonexistent/profile.json", tempfile.gettempdir()):
            with self.assertRaisesRegex(OSError, "cannot write"):
                isocost.profile_model(output=file, progress=False, llm=module)


class WithTorch(unittest.TestCase):
    def test_a_module_is_measured_and_its_profile_predicts(self):
        layer = torch.nn.Linear(32, 32)

        def prepare(lengths):
            rows = torch.randn(sum(lengths), 32)
            return lambda: layer(rows)

        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory) / "profile.json"
            llm = isocost.Architecture("a small LLM", layers=2, width=64, heads=4, mlp=256)
            module = isocost.ProfiledModule(prepare, (64, 1024), 4096, architecture=llm)
            profile = isocost.profile_model(budget_s=2, output=str(file), dtype="float32", progress=False, llm=module)
            self.assertEqual(json.loads(file.read_text()), profile)
            for point in profile["modules"]["llm"]["points"]:
                self.assertGreater(point["backward_s"], 0)
                outputs = 4 * 32 * point["units"]  # and their gradient, at least
                self.assertGreaterEqual(point["peak_bytes"], 2 * outputs)
                self.assertLess(point["peak_bytes"], 8 * outputs + 65536)
            said = subprocess.run([PROGRAM, "predict", "--profile", file, "--llm", "256x2", "--json"], check=True,
                                  capture_output=True, text=True, timeout=TIMEOUT)
            llm = json.loads(said.stdout)["modules"]["llm"]
            self.assertEqual(llm["origin"], "measured")
            self.assertGreater(llm["seconds"], 0)
            self.assertEqual(llm["bytes"]["weights"], 2 * 2 * (4 * 64 * 64 + 2 * 64 * 256))


class OtherHardware(ShardTest):
    def logged(self, hardware):
        """Returns the warnings of a job about a profile that was measured on that hardware."""
        weights = {"per_microbatch": 0, "per_sequence": 0, "per_unit": 1e-6, "per_unit_squared": 0}
        profile = {"version": 1, "unit": "seconds", "hardware": hardware,
                   "modules": {name: weights for name in ("vision", "audio", "llm")}}
        file = pathlib.Path(self.shards).parent / "profile.json"
        file.write_text(json.dumps(profile))
        with self.assertLogs("isocost", logging.WARNING) as log:
            logging.getLogger("isocost").warning("begin")
            with isocost.DataLoader(self.shards, global_batch_size=8, microbatches=2, profile=str(file)) as loader:
                self.assertGreater(sum(1 for _ in loader), 0)
        return [line for line in log.output if "measured on" in line]

    def test_is_a_warning_and_training_goes_on(self):
        warnings = self.logged("an abacus")
        self.assertEqual(len(warnings), 1)
        self.assertIn("measured on an abacus; rank 0 computes on", warnings[0])

    def test_the_same_is_none(self):
        self.assertEqual(self.logged(hardware()), [])


def stated(seconds_a_token):
    """A profile by which only the LLM costs anything."""
    modules = {name: {"per_microbatch": 0, "per_sequence": 0, "per_unit": 0, "per_unit_squared": 0}
               for name in ("vision", "audio", "llm")}
    modules["llm"]["per_unit"] = seconds_a_token
    return {"version": 1, "unit": "seconds", "modules": modules}


class Reprofile(ShardTest):
    CHANGE = 40  # the least step from which a token takes three times as long
    STEPS = 120  # after the change

    def train(self, reprofile, budget=1.0):
        """Trains on a model that changes as soon as measuring it again may take a second; returns (steps after the
        change at which it was measured again, the summary of the node, relative errors of the last predictions, what
        was logged)."""
        file = pathlib.Path(self.shards).parent / "stated.json"
        file.write_text(json.dumps(stated(1e-3)))
        calls, errors, steps, changed, begin = [], [], 0, None, time.monotonic()

        def measured(budget_s):
            calls.append(steps - changed)
            self.assertGreater(budget_s, 0.9)
            return reprofile(budget_s) if "budget_s" in inspect.signature(reprofile).parameters else reprofile()

        with self.assertLogs("isocost", logging.INFO) as log, isocost.DataLoader(
                self.shards, global_batch_size=16, microbatches=2, endless=True, profile=str(file),
                node=isocost.NodeOptions(reprofile_budget=budget),
                reprofile=None if reprofile is None else measured) as loader:
            logging.getLogger("isocost").info("begin")
            for microbatch in loader:
                if changed is None and steps >= self.CHANGE and time.monotonic() - begin > 1.2:
                    changed = steps
                seconds = (1e-3 if changed is None else 3e-3) * microbatch.tensors["input_ids"].numel()
                loader.report(microbatch, {"llm": seconds})
                errors.append(abs(microbatch.predicted["llm"] / seconds - 1))
                steps += microbatch.last_of_step
                if changed is not None and steps == changed + self.STEPS:
                    return calls, loader.stats()["node"], errors[-20:], "\n".join(log.output)
        raise AssertionError("the loader ended")

    def test_a_model_that_changed_is_measured_once_and_planned_by(self):
        calls, node, errors, log = self.train(lambda: stated(3e-3))
        self.assertEqual(len(calls), 1)
        self.assertGreater(calls[0], 0)
        self.assertLess(calls[0], 60)  # one step in 16 is measured, and steps are planned ahead
        self.assertEqual(node["reprofiles"], 1)
        self.assertLess(max(errors), 1e-4)
        self.assertIn("model profile of rank 0 adopted", log)

    def test_one_that_cannot_be_read_is_named_and_training_goes_on(self):
        calls, node, errors, log = self.train(lambda: {"version": 1, "unit": "hours"})
        self.assertGreaterEqual(len(calls), 1)
        self.assertEqual(node["reprofiles"], 0)
        self.assertLess(max(errors), 0.05)  # correction compensates for it
        self.assertIn("'unit' must be \"seconds\"; the node keeps the present profile", log)

    def test_one_that_fails_is_named_and_training_goes_on(self):
        def fail():
            raise RuntimeError("the GPU is full")

        _, node, errors, log = self.train(fail)
        self.assertEqual(node["reprofiles"], 0)
        self.assertLess(max(errors), 0.05)
        self.assertIn("reprofile= failed, the old profile stays: RuntimeError: the GPU is full", log)
        self.assertIn("model profile: rank 0: RuntimeError: the GPU is full; the node keeps the present profile", log)

    def test_one_that_takes_longer_than_its_budget_is_named_and_training_goes_on(self):
        def linger(budget_s):
            time.sleep(1.3 * budget_s + 0.3)
            return stated(3e-3)

        _, node, _, log = self.train(linger)
        self.assertEqual(node["reprofiles"], 0)
        self.assertRegex(log, r"rank 0 took \d\.\d s to measure, and reprofile_budget = 1 of training had accumulated")

    def test_budgets_that_allow_nothing_are_refused(self):
        for budget in (0.0, -1.0, 1.5):
            with self.assertRaisesRegex(ValueError, "reprofile_budget.*above 0 and at most 1"):
                self.train(lambda: stated(3e-3), budget)

    def test_is_not_asked_for_unless_allowed(self):
        _, node, _, log = self.train(None)
        self.assertEqual(node["reprofiles"], 0)
        self.assertNotIn("asking rank 0", log)
        self.assertEqual(log.count("trainers measure it again with reprofile= of isocost.DataLoader"), 1)

    def test_of_no_function_is_refused(self):
        with self.assertRaisesRegex(TypeError, "reprofile = 'on': must be a function"):
            isocost.DataLoader(self.shards, reprofile="on")


if __name__ == "__main__":
    main()
