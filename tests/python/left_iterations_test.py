"""Loops that leave an iteration before its end and begin another: each sample is trained on once, or a warning says
which are not, or which come again."""

import itertools
import logging

import isocost
from support import SAMPLES, ShardTest, main


class Left(ShardTest):
    def loader(self, microbatches=2, **options):
        loader = isocost.DataLoader(self.shards, global_batch_size=8, microbatches=microbatches,
                                    node=isocost.NodeOptions(correct=False), **options)
        self.addCleanup(loader.close)
        return loader

    @staticmethod
    def train(loader, microbatch, seen):
        with loader.timed(microbatch):
            seen.append((microbatch.epoch, microbatch.step))

    @staticmethod
    def warnings(logs):
        return [line for line in logs.output if "was left" in line]

    def steps(self, *epochs):
        """The places of two microbatches a step, by epoch and its steps."""
        return [(epoch, step) for epoch, steps in epochs for step in steps for _ in range(2)]

    def test_a_limit_of_microbatches_takes_the_beginning_of_each_epoch(self):
        for leave in ("break", "islice", "an iterator that is kept"):
            with self.subTest(leave), self.assertLogs("isocost", "WARNING") as logs:
                loader, seen, kept = self.loader(), [], []
                for _ in range(3):
                    if leave == "break":
                        for number, microbatch in enumerate(loader, start=1):
                            self.train(loader, microbatch, seen)
                            if number == 4:
                                break
                        continue
                    iterator = iter(loader)
                    kept += [iterator] if leave != "islice" else []
                    for microbatch in itertools.islice(iterator, 4):
                        self.train(loader, microbatch, seen)
                self.assertEqual(seen, self.steps((0, (0, 1)), (1, (0, 1)), (2, (0, 1))))
                [said] = self.warnings(logs)
                self.assertIn("epoch 0 was left at step 2: the rest of it is not trained on, and the next iteration "
                              "is epoch 1's. To go on with the rest, call "
                              "loader.load_state_dict(loader.state_dict())", said)

    def test_what_the_warning_says_goes_on_with_the_rest(self):
        loader, seen = self.loader(), []
        for microbatch in loader:
            self.train(loader, microbatch, seen)
            if len(seen) == 4:
                break
        loader.load_state_dict(loader.state_dict())
        with self.assertNoLogs("isocost", "WARNING"):
            ids = [sample for microbatch in loader for sample in microbatch.sample_ids]
        whole = [sample for microbatch in self.loader() for sample in microbatch.sample_ids]
        self.assertEqual(ids, whole[-len(ids):])
        self.assertEqual(len(ids), SAMPLES - 16)

    def test_a_look_at_a_microbatch_does_not_count(self):
        loader = self.loader()
        with self.assertNoLogs("isocost", "WARNING"):
            first = next(iter(loader)).sample_ids
            self.assertEqual([microbatch.sample_ids for microbatch in loader][0], first)

    def test_a_look_within_an_epoch_does_not_go_back_to_its_beginning(self):
        loader, again, seen = self.loader(), self.loader(), []
        for microbatch in loader:
            self.train(loader, microbatch, seen)
            if len(seen) == 4:
                break
        again.load_state_dict(loader.state_dict())
        self.assertEqual(next(iter(again)).step, 2)
        self.assertEqual([microbatch.step for microbatch in again][0], 2)

    def test_a_step_that_an_exception_leaves_comes_again(self):
        loader, seen = self.loader(), []
        with self.assertRaises(MemoryError):
            for microbatch in loader:
                self.train(loader, microbatch, seen)
                raise MemoryError  # The first of two microbatches is trained, and no gradient was applied.
        self.assertEqual([(each.epoch, each.step) for each in loader][0], (0, 0))

    def test_a_loop_that_does_not_say_what_it_trains_is_told_that_samples_come_again(self):
        loader = self.loader()
        with self.assertLogs("isocost", "WARNING") as logs:
            runs = [[each.sample_ids for each in itertools.islice(loader, 6)] for _ in range(3)]
        self.assertEqual(runs[1:], runs[:1] * 2)
        [said] = self.warnings(logs)
        self.assertIn("epoch 0 was left at step 3, and the loop has not said that it trained a step: the next "
                      "iteration begins at epoch 0, step 0 again. If it trained them, ", said)
        loader.set_epoch(1)
        self.assertEqual(next(iter(loader)).epoch, 1)

    def test_an_endless_loader_goes_on(self):
        loader, seen = self.loader(endless=True), []
        with self.assertNoLogs("isocost", "WARNING"):
            for _ in range(5):
                for microbatch in itertools.islice(loader, 6):
                    self.train(loader, microbatch, seen)
        steps = -(-SAMPLES // 8)
        self.assertEqual([place for place, _ in itertools.groupby(seen)],
                         [divmod(step, steps) for step in range(len(set(seen)))])

    def test_an_endless_look_across_the_end_of_an_epoch_begins_again_where_it_began(self):
        loader, seen = self.loader(endless=True), []
        for microbatch in itertools.islice(loader, 4):
            self.train(loader, microbatch, seen)
        beyond = 2 * -(-SAMPLES // 8) - 1  # the microbatches of an epoch, whose last step has one
        with self.assertLogs("isocost", "WARNING") as logs:
            looks = [[(each.epoch, each.step, each.sample_ids) for each in itertools.islice(loader, beyond)]
                     for _ in range(2)]
        self.assertEqual(looks[0][0][:2], (0, 2))
        self.assertEqual(looks[0][-1][:2], (1, 1))
        self.assertEqual(looks[1], looks[0])
        [said] = self.warnings(logs)
        self.assertIn("epoch 1 was left at step 2, and the loop has not said that it trained a step: the next "
                      "iteration begins at epoch 0, step 2 again.", said)

    def test_the_last_epoch_that_is_left_ends_the_job(self):
        loader, seen = self.loader(epochs=1), []
        logging.getLogger("isocost").setLevel(logging.ERROR)
        self.addCleanup(logging.getLogger("isocost").setLevel, logging.NOTSET)
        for microbatch in loader:
            self.train(loader, microbatch, seen)
            if len(seen) == 4:
                break
        self.assertEqual(list(loader), [])

    def test_whole_steps(self):
        loader, seen = self.loader(), []
        for _ in range(2):
            for step in itertools.islice(isocost.steps(loader), 2):
                for microbatch in step:
                    self.train(loader, microbatch, seen)
        self.assertEqual(seen, self.steps((0, (0, 1)), (1, (0, 1))))


if __name__ == "__main__":
    main()
