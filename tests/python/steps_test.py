"""Steps of a loader at once, and the mean loss over a data set."""

import itertools
import json
import signal
import time
import unittest.mock

import torch

import isocost
from isocost.connection.connection import Connection
from support import SAMPLES, TIMEOUT, ShardTest, learned, main, make_shards, torchrun

STILL = isocost.NodeOptions(correct=False)  # Plans do not follow measured seconds.


class Steps(ShardTest):
    def loader(self, **options):
        given = {"global_batch_size": 16, "microbatches": 2, "node": STILL, **options}
        loader = isocost.DataLoader(self.shards, **given)
        self.addCleanup(loader.close)
        return loader

    def delivered(self, loader):
        return loader.stats()["node"]["samples"]["delivered"]

    def test_a_step_is_the_list_of_its_microbatches(self):
        for options in ({}, {"microbatches": None, "max_tokens": 200}, {"prefetch": 1}):
            plain = [(each.position, each.sample_ids) for each in self.loader(**options)]
            steps = isocost.steps(self.loader(**options))
            whole = [[(each.position, each.sample_ids) for each in step] for step in steps]
            self.assertEqual(list(itertools.chain(*whole)), plain)
            self.assertEqual([step[-1][0][1] for step in whole], list(range(len(whole))))

    def test_a_step_holds_what_collate_made(self):
        loader = self.loader(collate=lambda microbatch: (microbatch.step, microbatch.last_of_step))
        self.assertEqual(next(iter(isocost.steps(loader))), [(0, False), (0, True)])

    def test_its_length_is_known_with_limits_too(self):
        for options in ({}, {"microbatches": None, "max_tokens": 200}, {"node": isocost.NodeOptions(tail="drop")}):
            steps = isocost.steps(self.loader(**options))
            self.assertEqual(len(steps), len(list(steps)), options)

    def test_without_a_length_nothing_has_one(self):
        # The node's word is changed here: a node of a data set has a length.
        loader, welcome = self.loader(), Connection.welcome

        def without_length(connection):
            return {**welcome(connection), "has_length": False, "samples_per_epoch": 0, "steps_per_epoch": 0}

        self.assertTrue(loader.has_length)
        with unittest.mock.patch.object(Connection, "welcome", without_length):
            self.assertFalse(loader.has_length)
            for count in (lambda: len(loader), lambda: len(isocost.steps(loader)), lambda: loader.steps_per_epoch):
                with self.assertRaisesRegex(TypeError, "mixture of data sets has no length unless"):
                    count()
            with self.assertRaisesRegex(TypeError, "no number of samples"):
                len(loader.dataset)
            with self.assertRaisesRegex(ValueError, "two evaluations of a mixture"):
                isocost.evaluate(loader, lambda microbatch: (0, 0))
        self.assertFalse(self.loader(endless=True).has_length)

    def test_a_step_is_acknowledged_when_the_next_one_is_asked_for(self):
        for options in ({}, {"collate": lambda microbatch: microbatch}, {"transform": lambda sample: None}):
            loader = self.loader(microbatches=4, **options)
            steps, counted = iter(isocost.steps(loader)), 0
            for step in steps:
                self.settled(loader, counted)
                time.sleep(0.05)  # An earlier acknowledgement would have arrived by now.
                self.assertEqual(self.delivered(loader), counted)
                counted += sum(len(each.sample_ids) for each in step)
            self.assertEqual(self.settled(loader, SAMPLES), SAMPLES)

    def settled(self, loader, expected):
        """The samples that the node counts as delivered, once it has heard of `expected`."""
        deadline = time.monotonic() + TIMEOUT
        while self.delivered(loader) < expected and time.monotonic() < deadline:
            pass
        return self.delivered(loader)

    def test_the_loop_over_microbatches_acknowledges_each(self):
        loader = self.loader(microbatches=4)
        iteration = iter(loader)
        first = next(iteration)
        next(iteration)
        self.assertEqual(self.settled(loader, len(first.sample_ids)), len(first.sample_ids))

    def test_a_state_names_the_next_step_once_a_step_is_trained(self):
        loader, whole = self.loader(), []
        for step in isocost.steps(loader):
            whole.append([each.sample_ids for each in step])
            for microbatch in step:
                with loader.timed(microbatch):
                    pass
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["step"]), (1, 0))
        for taken in range(1, len(whole)):
            before, after = isocost.steps(self.loader()), isocost.steps(self.loader())
            handed_out = [step for _, step in zip(range(taken), before)]
            state = before.state_dict(after=handed_out[-1][-1])
            self.assertEqual((state["epoch"], state["step"]), (0, taken))
            after.load_state_dict(state)
            after.set_epoch(0)  # It is that epoch already, and keeps the step.
            self.assertEqual([[each.sample_ids for each in step] for step in after], whole[taken:])

    def test_an_epoch_that_was_left_begins_anew_and_the_next_one_follows(self):
        loader = self.loader()
        steps = isocost.steps(loader)
        whole = [[each.sample_ids for each in step] for step in steps]
        self.assertEqual(next(iter(steps))[0].epoch, 1)
        epoch = list(steps)
        self.assertEqual({each.epoch for step in epoch for each in step}, {1})
        self.assertEqual(len(epoch), len(whole))
        steps.set_epoch(0)
        self.assertEqual([[each.sample_ids for each in step] for step in steps], whole)

    def test_an_interrupt_within_a_step_loses_nothing(self):
        whole = [[each.sample_ids for each in step] for step in isocost.steps(self.loader())]

        def interrupted(sample):
            if sample.id in at:
                at.clear()
                signal.raise_signal(signal.SIGALRM)
            return None

        def raise_interrupt(_number, _frame):
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, raise_interrupt)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        at = {whole[1][1][0]}  # a sample of the second microbatch of the second step
        steps, taken, interrupts = iter(isocost.steps(self.loader(transform=interrupted))), [], 0
        while True:
            try:
                taken.append([each.sample_ids for each in next(steps)])
            except KeyboardInterrupt:
                interrupts += 1
            except StopIteration:
                break
        self.assertEqual((taken, interrupts), (whole, 1))

    def test_reports_of_all_microbatches_of_a_step_are_learned(self):
        loader, sent = self.loader(microbatches=4, node=isocost.NodeOptions()), 0
        for step in isocost.steps(loader):
            for microbatch in step:
                with loader.timed(microbatch):
                    time.sleep(0.001)
                sent += 1
        self.assertGreater(sent, 8)
        self.assertEqual(learned(loader), (sent, sent, 0))

    def test_attached_timers_are_refused(self):
        loader = self.loader()
        model = torch.nn.Sequential(torch.nn.Linear(1, 1))
        timers = loader.attach(model, llm="0")
        with self.assertRaisesRegex(ValueError, r"take them off with remove\(\)"):
            iter(isocost.steps(loader))
        timers.remove()
        self.assertTrue(list(isocost.steps(loader)))

    def test_something_else_is_refused_by_name(self):
        with self.assertRaisesRegex(TypeError, "^steps: list is no isocost.DataLoader"):
            isocost.steps([])


# A loss that depends on the samples and not on how they are grouped.
EVALUATED = """
import json, sys, torch, isocost

def loss(microbatch):
    labels = microbatch["labels"]
    weights = microbatch["loss_weights"][labels != -100].double()
    return (weights * labels[labels != -100].double().sin()).sum(), weights.sum()

def by_label_tokens(microbatch):
    return loss(microbatch)[0], microbatch.label_tokens
"""


class Evaluating(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.held_out = make_shards(cls.directory / "held_out", 13)
        scope = {}
        exec(EVALUATED, scope)
        cls.loss = staticmethod(scope["loss"])

    def loader(self, data, **options):
        loader = isocost.DataLoader(data, **{"global_batch_size": 4, "microbatches": 2, "shuffle": False, "node": STILL,
                                             **options})
        self.addCleanup(loader.close)
        return loader

    def expected(self):
        """The mean, of all samples at once."""
        [microbatch] = self.loader(self.held_out, global_batch_size=13, microbatches=1)
        losses, weights = self.loss(microbatch)
        return float(losses / weights)

    def test_training_goes_on_with_the_next_microbatch(self):
        plain = [each.sample_ids for each in self.loader(self.shards)]
        training, held_out, taken = self.loader(self.shards), self.loader(self.held_out), []
        for microbatch in training:
            taken.append(microbatch.sample_ids)
            if microbatch.step in (1, 4):
                found = isocost.evaluate(held_out, self.loss)
                self.assertEqual(found.samples, 13)
                self.assertAlmostEqual(found.loss, self.expected(), delta=1e-9)
        self.assertEqual(taken, plain)

    def test_ranks_have_one_mean_over_each_sample_once(self):
        script = self.directory / "evaluate.py"
        script.write_text(EVALUATED + """
from torch import distributed
distributed.init_process_group("gloo")
with isocost.DataLoader(sys.argv[1], global_batch_size=int(sys.argv[2]), microbatches=1, shuffle=False) as loader:
    for _ in range(2):
        print(json.dumps(isocost.evaluate(loader, loss)), flush=True)
        print(json.dumps(isocost.evaluate(loader, by_label_tokens)), flush=True)
""")
        expected = self.expected()
        for ranks, batch in ((2, 4), (3, 4), (3, 3)):  # The last step is one sample, which the other ranks repeat.
            run = torchrun([script, self.held_out, batch], ranks)
            found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
            self.assertEqual(len(found), 4 * ranks, run.stderr)
            for loss, samples in found:
                self.assertEqual(samples, 13, (ranks, batch))
                self.assertAlmostEqual(loss, expected, delta=1e-9)

    def test_members_of_a_replica_group_count_once(self):
        script = self.directory / "evaluate_replicas.py"
        script.write_text(EVALUATED + """
import os
from torch import distributed
distributed.init_process_group("gloo")
rank = int(os.environ["RANK"])
groups = [distributed.new_group([0, 1]), distributed.new_group([2, 3])]
across = [distributed.new_group([0, 2]), distributed.new_group([1, 3])]
with isocost.DataLoader(sys.argv[1], global_batch_size=4, microbatches=1, shuffle=False,
                        topology=(across[rank % 2], groups[rank // 2])) as loader:
    print(json.dumps(isocost.evaluate(loader, loss)), flush=True)
""")
        run = torchrun([script, self.held_out], 4)
        found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
        self.assertEqual(len(found), 4, run.stderr)
        for loss, samples in found:
            self.assertEqual(samples, 13)
            self.assertAlmostEqual(loss, self.expected(), delta=1e-9)

    def test_ranks_without_a_process_group_are_told(self):
        script = self.directory / "evaluate_alone.py"
        script.write_text(EVALUATED + """
with isocost.DataLoader(sys.argv[1], global_batch_size=4, microbatches=1, shuffle=False) as loader:
    try:
        isocost.evaluate(loader, loss)
    except RuntimeError as error:
        print("told:", error)
""")
        run = torchrun([script, self.held_out], 2)
        self.assertEqual(run.stdout.count("call torch.distributed.init_process_group first"), 2, run.stderr)

    def test_what_cannot_be_evaluated_is_refused(self):
        with self.assertRaisesRegex(ValueError, "make one without endless=True"):
            isocost.evaluate(self.loader(self.held_out, endless=True), self.loss)
        ended = self.loader(self.held_out, epochs=1)
        self.assertEqual(isocost.evaluate(ended, self.loss).samples, 13)
        with self.assertRaisesRegex(ValueError, "the node has no epoch left"):
            isocost.evaluate(ended, self.loss)
        with self.assertRaisesRegex(TypeError, "collate= made a list of a microbatch"):
            isocost.evaluate(self.loader(self.held_out, collate=list), self.loss)


if __name__ == "__main__":
    main()
