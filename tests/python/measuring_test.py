"""Steps whose seconds the node does not ask for: all ranks are told alike, and `timed` measures nothing. The
node still learns which microbatches are trained, and how long the loop waited."""

import collections
import itertools
import json
import subprocess
import time
import types
import unittest.mock
import urllib.request

import torch

import isocost
import isocost.timing.stopwatch
from isocost.timing.recorder import NotTimed, Timed
from support import PROGRAM, TIMEOUT, ShardTest, main, torchrun

# With one rank no plan is better than another, so correction pauses once it has settled: after 16 steps, or 96
# microbatches.
SETTLED = 16
STEPS = 100

# The model profile's seconds are reported, so that nothing is to be corrected.
RANK = """
import itertools, json, sys
import isocost
with isocost.DataLoader(sys.argv[1], global_batch_size=16, microbatches=4, endless=True) as loader:
    wanted = []
    for microbatch in itertools.islice(loader, 4 * int(sys.argv[2])):
        loader.report(microbatch, {module: seconds for module, seconds in microbatch.predicted.items() if seconds > 0})
        wanted.append((microbatch.epoch, microbatch.step, microbatch.index, microbatch.seconds_wanted))
print(json.dumps(wanted), flush=True)
"""


def slowly(sample):
    time.sleep(0.001)
    return sample.tensors


class Measuring(ShardTest):
    def loader(self, **options):
        loader = isocost.DataLoader(self.shards, **{"global_batch_size": 8, "microbatches": 6, "endless": True,
                                                    **options})
        self.addCleanup(loader.close)
        return loader

    def unmeasured_step(self, loader, iterator):
        """The microbatches of the first step whose seconds are not wanted. The loop measures those before it."""
        step = []
        for microbatch in itertools.islice(iterator, 6 * STEPS):
            if not microbatch.seconds_wanted:
                step.append(microbatch)
                if microbatch.last_of_step:
                    return step
                continue
            loader.report(microbatch, 0.01)
        self.fail("every step was measured")

    def test_a_single_rank_is_soon_measured_in_few_steps(self):
        now = 0.0
        clock = types.SimpleNamespace(perf_counter=lambda: now)
        patch = unittest.mock.patch.object(isocost.timing.stopwatch, "time", clock)
        patch.start()
        self.addCleanup(patch.stop)
        loader = self.loader()
        wanted = collections.defaultdict(set)
        for microbatch in itertools.islice(loader, 6 * STEPS):
            wanted[microbatch.epoch, microbatch.step].add(microbatch.seconds_wanted)
            timed = loader.timed(microbatch)
            self.assertIs(type(timed), Timed if microbatch.seconds_wanted else NotTimed)
            with timed:
                now += sum(microbatch.predicted.values())  # Nothing is to be corrected.
        self.assertTrue(all(len(of_step) == 1 for of_step in wanted.values()), "a step is measured as a whole")
        measured = [of_step == {True} for of_step in wanted.values()]
        self.assertEqual(measured[:SETTLED], [True] * SETTLED)
        self.assertLess(sum(measured), STEPS - 15)
        node = loader.stats()["node"]
        self.assertEqual(node["measurements_rejected"], 0)

    def test_all_ranks_are_told_alike(self):
        script = self.directory / "rank.py"
        script.write_text(RANK)
        first, second = map(json.loads, torchrun([script, self.shards, STEPS], 2).stdout.splitlines())
        self.assertEqual(first, second)
        steps = collections.defaultdict(set)
        for epoch, step, _index, wanted in first:
            steps[epoch, step].add(wanted)
        self.assertGreaterEqual(len(steps), STEPS)  # The last step of an epoch has fewer microbatches.
        self.assertTrue(all(len(wanted) == 1 for wanted in steps.values()))
        self.assertEqual(list(steps.values())[:SETTLED], [{True}] * SETTLED)
        self.assertIn({False}, steps.values())

    def test_what_is_trained_is_said_all_the_same(self):
        loader = self.loader()
        step = self.unmeasured_step(loader, iter(loader))
        at = {"epoch": step[0].epoch, "step": step[0].step}

        def state():
            return {name: loader.state_dict()[name] for name in at}

        for microbatch in step[:-1]:
            with loader.timed(microbatch):
                pass
        self.assertEqual(state(), at)
        with self.assertRaises(ZeroDivisionError), loader.timed(step[-1]):
            raise ZeroDivisionError
        self.assertEqual(state(), at, "an exception has left its block")
        with loader.timed(step[-1]):
            pass
        self.assertNotEqual(state(), at)

    def test_a_resumed_run_is_measured_from_its_first_step_and_has_the_same_samples(self):
        loader = self.loader(seed=3)
        iterator = iter(loader)
        step = self.unmeasured_step(loader, iterator)
        for microbatch in step:
            with loader.timed(microbatch):
                pass
        state = loader.state_dict()
        following = [next(iterator) for _ in range(6)]
        loader.close()
        again = self.loader(seed=3)
        again.load_state_dict(state)
        resumed = list(itertools.islice(again, 6))
        self.assertTrue(all(microbatch.seconds_wanted for microbatch in resumed))
        self.assertEqual(sorted(key for microbatch in resumed for key in microbatch.sample_keys),
                         sorted(key for microbatch in following for key in microbatch.sample_keys))

    def test_the_wait_for_data_is_reported_and_metrics_say_what_is_measured(self):
        log = self.directory / "log"
        with open(log, "w") as errors:
            node = subprocess.Popen([PROGRAM, "serve", "--data", self.shards, "--bind", "tcp://127.0.0.1:*",
                                     "--metrics", "127.0.0.1:0", "--global-batch-size", "8", "--microbatches", "6",
                                     "--epochs", "0"], stdout=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(node.communicate)
        self.addCleanup(node.kill)
        endpoint = node.stdout.readline().split()[-1]
        url = next(line.split()[-1] for line in log.read_text().splitlines() if " metrics at " in line)

        def metric(name):
            with urllib.request.urlopen(url, timeout=TIMEOUT) as page:
                lines = page.read().decode().splitlines()
            return next(float(line.split()[-1]) for line in lines if line.startswith(f"isocost_{name}"))

        loader = isocost.DataLoader(endpoint, endless=True, transform=slowly)
        self.addCleanup(loader.close)
        iterator = iter(loader)
        self.unmeasured_step(loader, iterator)
        waited, measured = metric("data_wait_seconds_total"), metric("measured_steps_total")
        self.assertEqual(metric("correction_on"), 0)
        self.assertGreaterEqual(metric("correction_measuring_stride"), 16)
        self.assertGreaterEqual(metric("correction_penalty_ratio"), 1)
        self.assertGreater(metric("measuring_seconds_total"), 0)
        waited_s = 0.0
        asked: "dict[bool, set[int]]" = {False: set(), True: set()}  # steps by whether their seconds are wanted
        while len(asked[False]) < 8:  # a busy machine may seem to have changed, so that a step is measured
            microbatch = next(iterator)
            asked[microbatch.seconds_wanted].add(microbatch.step + 1000 * microbatch.epoch)
            self.assertLess(len(asked[True]), 100)
            waited_s += microbatch.waited_s
            with loader.timed(microbatch):
                pass
        next(iterator)  # Sends the last report.
        deadline = time.monotonic() + TIMEOUT
        while metric("data_wait_seconds_total") - waited < 0.9 * waited_s:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.assertGreater(waited_s, 0)
        self.assertLessEqual(metric("measured_steps_total") - measured, len(asked[True]))

    def test_passes_in_blocks_of_their_own(self):
        loader = self.loader()
        step = self.unmeasured_step(loader, iter(loader))
        with self.assertRaisesRegex(ValueError, "no forward pass"):
            loader.timed(step[0], part="backward")
        for microbatch in step:
            with loader.timed(microbatch, part="forward"):
                pass
        self.assertEqual(loader.state_dict()["step"], step[0].step)
        for microbatch in step:
            with loader.timed(microbatch, part="backward"):
                pass
        self.assertNotEqual(loader.state_dict()["step"], step[0].step)

    def test_hooks_and_reports_send_nothing(self):
        model = torch.nn.Linear(2, 2)
        loader = self.loader()
        iterator = iter(loader)
        step = self.unmeasured_step(loader, iterator)
        sent = loader.stats()["reports"]
        timers = loader.attach(model, llm="")
        for microbatch in step:
            model(torch.zeros(1, 2)).sum().backward()
            loader.report(microbatch, 0.5)
        self.assertEqual(timers.watches, {})
        self.assertEqual(loader.stats()["reports"], sent)
        with self.assertRaisesRegex(ValueError, "no time that a microbatch takes"):
            loader.report(step[-1], -3)
        self.assertNotEqual(loader.state_dict()["step"], step[0].step)

    def test_measuring_is_reported_with_what_it_took(self):
        loader = self.loader()
        for microbatch in itertools.islice(loader, 30):
            with loader.timed(microbatch):
                pass
        measuring_s = loader.stats()["measuring_s"]
        self.assertGreater(measuring_s, 0)
        self.assertLess(measuring_s, 30 * 0.01)

    def test_without_correction_one_step_in_sixteen_is_measured(self):
        loader = self.loader(node=isocost.NodeOptions(correct=False))
        wanted = [microbatch.seconds_wanted for microbatch in itertools.islice(loader, 6 * 40) if microbatch.index == 0]
        self.assertEqual([step for step, one in enumerate(wanted) if one], [0, 16, 32])


if __name__ == "__main__":
    main()
