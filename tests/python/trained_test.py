"""Tests of docs/decisions/0016-what-counts-as-trained.md: which steps a loader takes for trained."""

import collections
import time

import torch

import isocost
from support import SAMPLES, TIMEOUT, ShardTest, main


class Trained(ShardTest):
    def loader(self, batch_size=8, microbatches=2, **options):
        loader = isocost.DataLoader(self.shards, global_batch_size=batch_size, microbatches=microbatches,
                                    node=isocost.NodeOptions(correct=False), **options)
        self.addCleanup(loader.close)
        return loader

    def whole(self, **options):
        """The samples of each step of the first two epochs, by epoch and step."""
        steps = collections.defaultdict(list)
        loader = self.loader(**options)
        for _ in range(2):
            for each in loader:
                steps[each.epoch, each.step] += each.sample_ids
        return steps

    @staticmethod
    def looking_ahead(iterator, ahead):
        """Hands on what `iterator` gives, once it has asked for `ahead` more, as loops that prefetch do."""
        ready = collections.deque()
        for each in iterator:
            ready.append(each)
            if len(ready) > ahead:
                yield ready.popleft()
        yield from ready

    def place(self, state):
        return state["epoch"], state["step"]

    def test_a_loop_that_looks_ahead_loses_nothing(self):
        for ahead in (0, 1, 2):
            for microbatches in (1, 2):
                whole = self.whole(microbatches=microbatches)
                steps_of_epoch = sum(epoch == 0 for epoch, _ in whole)
                for stop_after in (1, 2, 3, microbatches * steps_of_epoch):
                    with self.subTest(ahead=ahead, microbatches=microbatches, stop_after=stop_after):
                        loader = self.loader(microbatches=microbatches)
                        trained = collections.defaultdict(list)
                        for done, each in enumerate(self.looking_ahead(iter(loader), ahead), start=1):
                            with loader.timed(each):
                                trained[each.epoch, each.step] += each.sample_ids
                            if done == stop_after:
                                break
                        state = loader.state_dict()
                        steps, within = divmod(stop_after, microbatches)
                        self.assertEqual(self.place(state), divmod(steps, steps_of_epoch))
                        if within:
                            del trained[0, steps]  # Its gradient was not applied: it comes again.
                        again = self.loader(microbatches=microbatches)
                        again.load_state_dict(state)
                        for _ in range(2 - state["epoch"]):
                            for each in again:
                                trained[each.epoch, each.step] += each.sample_ids
                        self.assertEqual({at: sorted(ids) for at, ids in trained.items()},
                                         {at: sorted(ids) for at, ids in whole.items()})

    def test_steps_that_are_fetched_ahead_are_not_trained(self):
        loader = self.loader()
        steps = isocost.steps(loader)
        for number, step in enumerate(self.looking_ahead(iter(steps), 1)):
            for each in step:
                self.assertEqual(self.place(steps.state_dict()) if number else (0, 0), (0, number))
                with loader.timed(each):
                    pass
            if number == 2:
                break
        self.assertEqual(self.place(steps.state_dict()), (0, 3))

    def test_a_loop_that_says_nothing_has_no_state(self):
        loader = self.loader(microbatches=2)
        iterator = iter(loader)
        first = next(iterator)
        self.assertEqual(self.place(loader.state_dict()), (0, 0))  # No step was handed out whole.
        last = next(iterator)
        with self.assertRaisesRegex(ValueError, r"has not said what it trained.*microbatch 1 was handed out.*"
                                                r"loader.timed\(microbatch\).*state_dict\(after=microbatch\)"):
            loader.state_dict()
        self.assertEqual(self.place(loader.state_dict(after=first)), (0, 0))
        self.assertEqual(self.place(loader.state_dict(after=last)), (0, 1))
        self.assertEqual(self.place(loader.state_dict()), (0, 1))
        self.assertEqual(self.place(loader.state_dict(after=first)), (0, 0), "the state of then")
        self.assertEqual(self.place(loader.state_dict()), (0, 1))

    def test_a_loop_that_stops_to_say_it_has_no_state(self):
        loader = self.loader(batch_size=4, microbatches=1)
        for each in loader:
            if each.step == 0:
                with loader.timed(each):
                    pass
            if each.step == 7:
                self.assertEqual(self.place(loader.state_dict()), (0, 1))
        with self.assertRaisesRegex(ValueError, "since epoch 0, step 0, microbatch 0"):
            loader.state_dict()

    def test_what_was_not_handed_out_cannot_be_trained(self):
        loader, other = self.loader(), self.loader()
        iterator, ahead = iter(loader), list(other)
        next(iterator)
        with self.assertRaisesRegex(ValueError, "epoch 0, step 1, microbatch 0 was not handed out"):
            loader.state_dict(after=ahead[2])
        with self.assertRaisesRegex(TypeError, "state_dict: after = int is no isocost.Microbatch"):
            loader.state_dict(after=3)
        with self.assertRaisesRegex(TypeError, "made of a mapping"):
            loader.state_dict(after=isocost.Microbatch({"input_ids": torch.zeros(1)}))

    def test_a_body_that_throws_is_not_trained(self):
        loader = self.loader(microbatches=1)
        for each in loader:
            try:
                with loader.timed(each):
                    if each.step == 2:
                        raise MemoryError
            except MemoryError:
                self.assertEqual(self.place(loader.state_dict()), (0, 2))
                break
        self.assertEqual(self.place(loader.state_dict()), (0, 2))

    def test_a_report_and_a_backward_pass_count_and_a_forward_pass_does_not(self):
        loader = self.loader(microbatches=1)
        iterator = iter(loader)
        loader.report(next(iterator), 0.1)
        self.assertEqual(self.place(loader.state_dict()), (0, 1))
        each = next(iterator)
        with loader.timed(each, part="forward"):
            pass
        self.assertEqual(self.place(loader.state_dict()), (0, 1))
        with loader.timed(each, part="backward"):
            pass
        self.assertEqual(self.place(loader.state_dict()), (0, 2))

    def test_hooks_see_that_something_ran_and_not_what(self):
        loader, model = self.loader(microbatches=1), torch.nn.ModuleDict({"llm": torch.nn.Linear(1, 1)})
        loader.attach(model, llm="llm")
        iterator = iter(loader)
        for _ in range(2):
            last = next(iterator)
            model["llm"](torch.ones(1, 1)).sum().backward()
        with self.assertRaisesRegex(ValueError, "state_dict"):
            loader.state_dict()
        self.assertEqual(self.place(loader.state_dict(after=last)), (0, 2))

    def test_an_evaluation_is_over_with_its_epoch(self):
        loader = self.loader()
        isocost.evaluate(loader, lambda each: (1.0, 1))
        self.assertEqual(self.place(loader.state_dict()), (1, 0))

    def test_an_iteration_that_was_left_says_nothing_of_the_next(self):
        loader = self.loader(microbatches=1)
        taken = [each for each, _ in zip(loader, range(4))]
        iterator = iter(loader)  # The epoch starts anew.
        next(iterator)
        with loader.timed(taken[3]):
            pass
        with self.assertRaisesRegex(ValueError, "has not said what it trained"):
            loader.state_dict()

    def test_a_state_that_was_loaded_is_the_state(self):
        loader = self.loader()
        list(loader)
        state = {**self.loader().state_dict(), "epoch": 1}
        loader.load_state_dict(state)
        self.assertEqual(self.place(loader.state_dict()), (1, 0))

    def test_the_node_counts_what_is_trained(self):
        loader = self.loader(microbatches=1)
        delivered = []
        for each in self.looking_ahead(iter(loader), 2):
            with loader.timed(each):
                delivered.append(len(each.sample_ids))
            if each.step == 3:
                break
        deadline = time.monotonic() + TIMEOUT
        # Two more were handed out, and what is trained is acknowledged when the next one is asked for.
        while self.counted(loader) < sum(delivered[:3]) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.counted(loader), sum(delivered[:3]))
        self.assertLess(sum(delivered), SAMPLES)

    @staticmethod
    def counted(loader):
        return loader.stats()["node"]["samples"]["delivered"]


if __name__ == "__main__":
    main()
