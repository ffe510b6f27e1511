"""Exactly once through kills, restarts and changes of the number of ranks."""

import concurrent.futures
import json
import pathlib
import random
import signal
import subprocess
import sys
import time

import isocost
from isocost.connection.state import State
from support import SAMPLES, TIMEOUT, ShardTest, main, make_shards, start_ranks

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import fault_server  # noqa: E402

COMPATIBILITY = pathlib.Path(__file__).parents[1] / "compatibility/0.1"  # see docs/compatibility.md

TRAIN = pathlib.Path(__file__).with_name("train.py")
EPOCHS = 6
KILLS = 20
SMALLEST_CACHE = 1 << 20


def end_with_stacks(ranks):
    """Ends ranks that hang; each writes the stacks of its threads to its stderr."""
    for rank in ranks:
        rank.send_signal(signal.SIGABRT)
        rank.wait()


class Resume(ShardTest):
    def steps(self, state):
        return json.loads(state.read_text())["steps"] if state.exists() else []

    def run_until(self, state, world_size, steps, job):
        """Runs a job and kills it once `steps` steps are saved; None: to its end. Returns whether the kill landed
        on every rank: a job may have come to its end just before."""
        store, ranks = start_ranks([TRAIN, job["data"], state, job["epochs"], json.dumps(job["options"])], world_size,
                                   stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + TIMEOUT
            while any(rank.poll() is None for rank in ranks):
                if steps is not None and len(self.steps(state)) >= steps:
                    break
                if time.monotonic() > deadline:
                    end_with_stacks(ranks)
                time.sleep(0.002)
        finally:
            for rank in ranks:
                rank.kill()
            ends = [rank.communicate()[1] for rank in ranks]
            del store
        statuses = [rank.returncode for rank in ranks]
        if steps is None:
            self.assertEqual(statuses, [0] * world_size, ends)
        self.assertLessEqual(set(statuses), {0, -signal.SIGKILL}, ends)
        return statuses == [-signal.SIGKILL] * world_size

    def expect_exactly_once(self, state, kills, samples, job):
        """Kills a job again and again, with changing world sizes, and compares what was trained with one run."""
        choices = random.Random(5)
        per_epoch = -(-samples // 8)
        landed = 0
        for kill in range(kills):
            done = len(self.steps(state))
            landed += self.run_until(state, 2 if kill % 2 else 1,
                                     min(done + 1 + choices.randrange(3), job["epochs"] * per_epoch - 1), job)
        self.assertGreaterEqual(landed, kills - 2)
        self.run_until(state, 2, None, job)

        trained = {(epoch, step): sorted(ids) for epoch, step, ids in self.steps(state)}
        self.assertEqual(len(trained), len(self.steps(state)), "a step was trained twice")
        with isocost.DataLoader(job["data"], global_batch_size=8, microbatches=2,
                                node=isocost.NodeOptions(**job["options"])) as loader:
            for epoch in range(job["epochs"]):
                expected = {}
                for microbatch in loader:
                    expected.setdefault((epoch, microbatch.step), []).extend(microbatch.sample_ids)
                self.assertEqual(sorted(sample for ids in expected.values() for sample in ids), list(range(samples)))
                for at, ids in expected.items():
                    self.assertEqual(trained[at], sorted(ids), at)

    def test_killed_twenty_times_with_changing_world_sizes(self):
        self.expect_exactly_once(self.directory / "state.json", KILLS, SAMPLES,
                                 {"data": str(self.shards), "epochs": EPOCHS, "options": {}})

    def test_killed_while_a_server_fails_behind_a_cache_that_is_too_small(self):
        samples = 480
        shards = make_shards(self.directory / "server", samples)
        stored = sum(path.stat().st_size for path in shards.glob("*.tar"))
        self.assertGreater(stored, 1.2 * SMALLEST_CACHE)
        faults = [{"fault": "status", "status": 503, "share": 0.03}, {"fault": "reset", "share": 0.01},
                  {"fault": "cut", "after": 300, "share": 0.01}]
        with fault_server.FaultServer(shards, faults) as server:
            address = f"http://127.0.0.1:{server.port}/shard-{{000000..{samples // 16 - 1:06}}}.tar"
            options = {"index_dir": str(self.directory / "server-indexes"), "cache": str(self.directory / "cache"),
                       "cache_size": SMALLEST_CACHE}
            self.expect_exactly_once(self.directory / "server.json", 8, samples,
                                     {"data": address, "epochs": 2, "options": options})
            refused = sum(1 for entry in server.log if entry["fault"])
            self.assertGreater(refused, 0.02 * len(server.log))

    def test_saved_at_the_start_in_the_middle_at_the_end_and_after_it(self):
        def loader():
            made = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2, epochs=2,
                                      node=isocost.NodeOptions(correct=False))
            self.addCleanup(made.close)
            return made

        def seen(microbatch):
            return microbatch.epoch, microbatch.step, microbatch.index, microbatch.sample_ids

        first = loader()
        states, whole = [(0, first.state_dict())], []
        for _ in range(2):
            for microbatch in first:
                whole.append(seen(microbatch))
                if microbatch.last_of_step:
                    states.append((len(whole), first.state_dict(after=microbatch)))
            states.append((len(whole), first.state_dict()))
        for position, state in states:
            second = loader()
            second.load_state_dict(state)
            rest = []
            for _ in range(2 - state["epoch"]):
                rest += [seen(microbatch) for microbatch in second]
            self.assertEqual(rest, whole[position:], state)

    def test_a_state_in_the_middle_of_a_step_is_that_step(self):
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2) as loader:
            iterator = iter(loader)
            for _ in range(3):
                microbatch = next(iterator)
            self.assertEqual((microbatch.step, microbatch.index), (1, 0))
            state = loader.state_dict(after=microbatch)
            self.assertEqual((state["epoch"], state["step"]), (0, 1))

    def test_ranks_may_ask_for_the_length_before_they_load_a_state(self):
        _node, endpoint = self.serve("--global-batch-size", 16, "--microbatches", 2, "--correct", "off")

        def rank(number):
            loader = isocost.DataLoader(endpoint, rank=number, world_size=2, connect_timeout=TIMEOUT)
            self.addCleanup(loader.close)
            return loader

        first, second = rank(0), rank(1)
        lengths = [len(first), len(second), first.steps_per_epoch]
        state = {**first.state_dict(), "step": 2}
        first.load_state_dict(state)
        with concurrent.futures.ThreadPoolExecutor(1) as others:
            begun = others.submit(next, iter(first))
            time.sleep(3)  # The second rank is late by more than the time in which ranks that disagree are refused.
            self.assertEqual([len(second), len(second), second.steps_per_epoch], lengths)
            second.load_state_dict(state)
            microbatches = [begun.result(TIMEOUT), next(iter(second))]
        self.assertEqual([(each.epoch, each.step, each.index) for each in microbatches], [(0, 2, 0)] * 2)
        self.assertEqual(len(first), lengths[0])

    def test_a_state_that_0_1_wrote_is_read(self):
        written = json.loads((COMPATIBILITY / "saved_state.json").read_text())
        state = State.from_dict(written)
        self.assertEqual((state.cursor, state.epoch, state.step, state.mixture), (0x00f1e2d3c4b5a697, 2, 17, ""))
        self.assertEqual(state.to_dict(), {**written, "mixture": ""})
        self.assertEqual(State.from_dict(state.to_dict()), state)

    def test_a_state_of_version_2_goes_on_without_its_cursor(self):
        def loader():
            made = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
            self.addCleanup(made.close)
            return made

        whole = [(each.step, each.index, each.sample_ids) for each in loader()]
        old = {"version": 2, "cursor": "00f1e2d3c4b5a697", "epoch": 0, "step": 2, "cost_model_state": ""}
        for use in (len, lambda resumed: next(iter(resumed))):
            resumed = loader()
            resumed.load_state_dict(old)
            with self.assertRaisesRegex(ValueError, "resumes a state of version 2, whose cursor .* another form.* set "
                                                    "its 'cursor' to \"0\".*goes on at epoch 0, step 2"):
                use(resumed)
        resumed = loader()
        resumed.load_state_dict({**old, "cursor": "0"})
        rest = []
        for each in resumed:
            rest.append((each.step, each.index, each.sample_ids))
            state = resumed.state_dict(after=each)
        self.assertEqual(rest, [each for each in whole if each[0] >= 2])
        self.assertEqual(state["version"], 3)
        # Version 2 with a cursor that fits is resumed as it is.
        fits = {**old, "cursor": state["cursor"]}
        resumed = loader()
        resumed.load_state_dict(fits)
        self.assertEqual([(each.step, each.index, each.sample_ids) for each in resumed], rest)

    def test_a_state_of_a_mixture_is_refused_by_a_node_without_one(self):
        with isocost.DataLoader(self.shards, global_batch_size=16) as loader:
            len(loader)
            state = loader.state_dict()
            self.assertEqual(state["mixture"], "")
            source = {"name": "a", "size": 9, "fingerprint": "0" * 16, "steps": [0], "proportions": [1.0]}
            mixture = {"version": 1, "seed": "0" * 16, "shuffled": True, "global_batch_size": 16, "sources": [source]}
            for text, says in ((json.dumps(mixture), "it is of a mixture of data sets, and the node has one data set"),
                               ('{"source": []}', "resumes a saved state: .*version")):
                loader.load_state_dict({**state, "mixture": text})
                with self.assertRaisesRegex(ValueError, says):
                    next(iter(loader))
            for wrong, says in ((3, "must be"), ("é" * 40_000, "must have at most 65536 bytes, and has 80000")):
                with self.assertRaisesRegex(ValueError, f"'mixture' {says}"):
                    loader.load_state_dict({**state, "mixture": wrong})
            del state["mixture"]
            with self.assertRaisesRegex(ValueError, "'mixture' is missing"):
                loader.load_state_dict(state)

    def test_a_state_of_version_1_is_refused_and_says_how_to_go_on(self):
        written = {"version": 1, "cursor": "00f1e2d3c4b5a697", "epoch": 2, "step": 17, "learnt": "SVNDTQAB"}
        with self.assertRaisesRegex(ValueError, "'version' is 1; this program reads versions 2 and 3: take 'cursor', "
                                                "'epoch' and 'step' alone"):
            State.from_dict(written)
        position = {name: written[name] for name in ("cursor", "epoch", "step")}
        self.assertEqual(State.from_dict({"version": 2, **position}).to_dict(),
                         {"version": 2, **position, "cost_model_state": "", "mixture": ""})

    def test_unknown_keys_of_a_state_are_refused(self):
        written = json.loads((COMPATIBILITY / "saved_state.json").read_text())
        with self.assertRaisesRegex(ValueError, "'learnt' is not a known key: load the state with the Isocost"):
            State.from_dict({**written, "place": 3, "learnt": ""})

    def test_any_state_is_read_or_refused_with_a_reason(self):
        """Seeded changes to a saved state, as of a damaged checkpoint: there is no other error than ValueError."""
        text = json.dumps({**State.from_dict(json.loads((COMPATIBILITY / "saved_state.json").read_text())).to_dict(),
                           "version": 3, "mixture": '{"source": ["é"]}'})
        written, choices = json.loads(text), random.Random(3)
        values = (None, True, -1, 0, 2**32, 2**64, 10**400, 2.5, float("nan"), "", "é", "-1", "0x10", "=", "A" * 7, [],
                  {}, [1], {"a": 1})
        read = refused = 0
        for _ in range(20_000):
            if choices.random() < 0.5:
                state = dict(written)
                for name in choices.sample(sorted(written), choices.randint(1, 2)):
                    state[name] = choices.choice(values)
            else:
                at = choices.randrange(len(text))
                changed = text[:at] + choices.choice('0,:"{}xé\n') * choices.randint(0, 2) + text[at + 1:]
                try:
                    state = json.loads(changed)
                except ValueError:
                    continue  # a checkpoint that cannot be loaded
            try:
                self.assertEqual(State.from_dict(State.from_dict(state).to_dict()), State.from_dict(state))
                read += 1
            except ValueError as error:
                self.assertRegex(str(error), "^load_state_dict: ")
                refused += 1
        self.assertGreater(min(read, refused), 1000)

    def test_the_state_is_small_and_constant(self):
        with isocost.DataLoader(self.shards, global_batch_size=16) as loader:
            sizes = {len(json.dumps(loader.state_dict(after=each))) for each in loader}
        self.assertEqual(len(sizes), 1)
        self.assertLess(sizes.pop(), 200)

    def test_the_state_holds_what_the_cost_model_has_learned(self):
        def first_predicted(state):
            with isocost.DataLoader(self.shards, global_batch_size=10, microbatches=2) as loader:
                loader.load_state_dict(state)
                return next(iter(loader)).predicted["llm"]

        with isocost.DataLoader(self.shards, global_batch_size=10, microbatches=2) as loader:
            for _ in range(4):
                for microbatch in loader:
                    loader.report(microbatch, {"llm": 1e-3 * microbatch.tokens})  # far more than the default says
            state = json.loads(json.dumps(loader.state_dict()))
        self.assertLess(len(state["cost_model_state"]), 20_000)
        untaught = {name: value for name, value in state.items() if name != "cost_model_state"}
        self.assertGreater(first_predicted(state) / first_predicted(untaught), 1.5)
        with isocost.DataLoader(self.shards, global_batch_size=10, microbatches=2) as loader:
            loader.load_state_dict(state)
            next(iter(loader))
            self.assertEqual(loader.state_dict(), state)  # nothing new yet
            for damaged in ("no base64!", 3):
                with self.assertRaisesRegex(ValueError, "'cost_model_state' must be"):
                    loader.load_state_dict({**state, "cost_model_state": damaged})


if __name__ == "__main__":
    main()
