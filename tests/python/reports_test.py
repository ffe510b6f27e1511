"""Every report of a training loop reaches the cost model, whatever runs ahead of the loop."""

import itertools
import logging
import statistics
import threading
import time

import isocost
from support import SAMPLES, TIMEOUT, ShardTest, learned, main


def same(sample):
    return sample.tensors


def as_it_is(microbatch):
    return microbatch


class Reports(ShardTest):
    def loader(self, **options):
        options = {"global_batch_size": 5, "epochs": 2, "node": isocost.NodeOptions(plan_ahead=8), **options}
        loader = isocost.DataLoader(self.shards, **options)
        self.addCleanup(loader.close)
        return loader

    def test_each_is_learned_for_every_way_of_taking_ahead(self):
        for transform, collate, prefetch, microbatches in itertools.product(
                (None, same), (None, as_it_is), (1, 2, 8), (1, 4)):
            options = {"transform": transform, "collate": collate, "prefetch": prefetch, "microbatches": microbatches}
            with self.subTest(**options):
                loader = self.loader(**options)
                seen = 0
                for _ in range(2):
                    for microbatch in loader:
                        with loader.timed(microbatch):
                            time.sleep(0.0005)
                        seen += 1
                sent, accepted, refused = learned(loader)
                loader.close()
                self.assertGreaterEqual(seen, 2 * SAMPLES // 5)
                self.assertEqual((sent, accepted, refused), (seen, seen, 0))

    def test_one_of_the_step_before_is_learned(self):
        # The device finishes a step when the loop has begun the next one.
        loader = self.loader(microbatches=1)
        before, sent = None, 0
        for microbatch in loader:
            if before is not None:
                loader.report(before, 0.001)
                sent += 1
            before = microbatch
        self.assertEqual(learned(loader), (sent, sent, 0))

    def test_microbatches_that_were_only_prepared_are_not_delivered(self):
        loader = self.loader(transform=same, prefetch=8, microbatches=1)
        first = next(iter(loader))
        time.sleep(0.3)  # The thread that runs ahead has taken more by now.
        self.assertEqual(loader.stats()["node"]["samples"]["delivered"], 0)
        self.assertEqual(len(first.sample_ids), 5)

    def test_waiting_is_the_loops_and_not_that_of_the_threads_ahead(self):
        loader = self.loader(transform=same, prefetch=4, microbatches=1)
        waited = []
        for microbatch in loader:
            waited.append(microbatch.waited_s)
            time.sleep(0.02)
        self.assertLess(statistics.median(waited), 0.01)  # the threads wait as long as the loop sleeps


class Logs(ShardTest):
    def test_counts_do_not_wait_for_a_handler_that_takes_its_time(self):
        class Slow(logging.Handler):
            entered, released = threading.Event(), threading.Event()

            def emit(self, record):
                if threading.current_thread() is not threading.main_thread():
                    self.entered.set()
                    self.released.wait(TIMEOUT)

        handler = Slow(level=logging.DEBUG)
        logger = logging.getLogger("isocost")
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        self.addCleanup(logger.setLevel, level)
        self.addCleanup(logger.removeHandler, handler)
        loader = isocost.DataLoader(self.shards, global_batch_size=5, microbatches=1)
        self.addCleanup(loader.close)
        self.addCleanup(handler.released.set)  # before the loader is closed
        microbatch = next(iter(loader))
        loader.report(microbatch, 0.001)
        loader.report(microbatch, 0.001)  # The node refuses it, and one of its threads logs that.
        self.assertTrue(handler.entered.wait(TIMEOUT))
        for _ in range(100):
            loader.stats()
        self.assertFalse(handler.released.is_set())


if __name__ == "__main__":
    main()
