"""The user's functions between the client and the loop."""

import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest
import unittest.mock

import torch

import isocost
from support import PROGRAM, SAMPLES, ShardTest, main


def words(text):
    """A tokeniser of fewer tokens than bytes."""
    return [256, *(len(word) for word in text.split()), 257]


def tokenise(sample):
    return {"input_ids": torch.tensor(words(sample.text))}


def lengths(sample):
    # The node knows only headers; the texts of these samples follow from their number.
    i = int(sample["key"][1:])
    count = len(words(f"sample {i} " + "x" * (i * 7 % 60)))
    return {"llm_tokens": count, "label_tokens": count - 1}


def threads_of_isocost():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("isocost")]


class Transform(ShardTest):
    def loader(self, **options):
        loader = isocost.DataLoader(self.shards, **{"global_batch_size": 16, "microbatches": 2, **options})
        self.addCleanup(loader.close)
        return loader

    def test_a_tokeniser_that_announces_its_lengths(self):
        seen = []
        for microbatch in self.loader(transform=tokenise, count_tokens=lengths):
            tensors = microbatch.tensors
            sums = tensors["cu_seqlens"].tolist()
            self.assertEqual(sums[-1], len(tensors["input_ids"]))
            self.assertEqual(tensors["loss_weights"].tolist(), [1.0] * sums[-1])
            self.assertEqual(int((tensors["labels"] != -100).sum()), microbatch.label_tokens)
            for i, sample in enumerate(microbatch.sample_ids):
                own = slice(sums[i], sums[i + 1])
                self.assertEqual(tensors["position_ids"][own].tolist(), list(range(sums[i + 1] - sums[i])))
                self.assertEqual(tensors["labels"][own].tolist(), [-100] + tensors["input_ids"][own].tolist()[1:])
                seen.append(sample)
        self.assertEqual(sorted(seen), list(range(SAMPLES)))

    def test_announced_lengths_reach_the_plan(self):
        in_order = isocost.NodeOptions(balance="in-order", correct=False)
        with self.loader(transform=tokenise, count_tokens=lengths, node=in_order) as with_lengths, \
                self.loader(node=in_order) as without:
            for ours, theirs in zip(with_lengths, without):
                self.assertEqual(ours.sample_ids, theirs.sample_ids)
                self.assertLess(ours.global_label_tokens, theirs.global_label_tokens)
                self.assertLess(ours.predicted["llm"], theirs.predicted["llm"])

    def test_lengths_that_were_not_announced_are_refused_with_the_sample(self):
        with self.assertRaisesRegex(ValueError, r"sample \d+ \d+ label tokens where the plan counts .* count_tokens="):
            list(self.loader(transform=tokenise))

    def test_new_tensors_join_in_order(self):
        def add(sample):
            return {"length_of_text": torch.tensor([len(sample.text)]), "id": torch.tensor([sample.id])}

        for microbatch in self.loader(transform=add):
            self.assertEqual(microbatch.tensors["id"].tolist(), microbatch.sample_ids)

    def test_runs_beside_the_loop(self):
        threads = set()
        for _ in self.loader(transform=lambda sample: threads.add(threading.current_thread().name)):
            pass
        self.assertTrue(all(name.startswith("isocost-transform") for name in threads), threads)

    def test_an_interrupt_and_a_failure_lose_no_microbatch(self):
        entered, go_on = threading.Event(), threading.Event()

        def wait(sample):
            entered.set()
            go_on.wait()

        iterator = iter(self.loader(transform=wait))
        threading.Thread(target=lambda: (entered.wait(), os.kill(os.getpid(), signal.SIGINT))).start()
        with self.assertRaises(KeyboardInterrupt):
            next(iterator)
        go_on.set()
        first = next(iterator)
        self.assertEqual((first.step, first.index), (0, 0))

        loader = self.loader(transform=lambda sample: 1 // 0)
        iterator = iter(loader)
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
                next(iterator)
        self.assertEqual(loader.state_dict()["step"], 0)

    def test_an_interrupt_of_the_start_begins_again(self):
        start, begun = threading.Thread.start, []

        def interrupted(thread):
            start(thread)
            if threading.current_thread() is threading.main_thread():
                begun.append(thread)
                if len(begun) == 1:
                    raise KeyboardInterrupt

        loader = self.loader(transform=lambda sample: None)
        iterator = iter(loader)
        with unittest.mock.patch.object(threading.Thread, "start", interrupted):
            with self.assertRaises(KeyboardInterrupt):
                next(iterator)
            self.assertEqual([(each.step, each.index) for each in iterator][:2], [(0, 0), (0, 1)])
        loader.close()
        self.assertEqual(threads_of_isocost(), [])

    def test_returned_values_are_checked(self):
        ids = torch.zeros(3, dtype=torch.int64)
        for returned, pattern in (([ids], "a list"), ({"x": [1]}, "'x' as list"), ({"x": torch.tensor(1)}, "'x'"),
                                  ({3: ids}, "3 as Tensor"), ("text", "a str")):
            with self.assertRaisesRegex(TypeError, f"gives sample .*{pattern}"):
                next(iter(self.loader(transform=lambda sample, returned=returned: returned)))
        for returned, pattern in (({"loss_weights": ids}, "leave it out"), ({"input_ids": ids[None]}, "one dimension"),
                                  ({"labels": ids}, "labels that begin with 0: labels are not shifted")):
            with self.assertRaisesRegex(ValueError, f"gives sample .*{pattern}"):
                next(iter(self.loader(transform=lambda sample, returned=returned: returned)))
        with self.assertRaisesRegex(ValueError, "no 'x', which it gives others"):
            list(self.loader(transform=lambda sample: {"x": ids} if sample.id % 2 else None))

    def test_text_that_a_limit_cut_within_a_character(self):
        texts = []
        with tempfile.TemporaryDirectory() as directory:
            text = pathlib.Path(directory) / "files" / "t.txt"
            text.parent.mkdir()
            text.write_text("\u00e4" * 20)
            subprocess.run([PROGRAM, "make-shards", text.parent, text.parent / "shards"], check=True,
                           capture_output=True)
            with isocost.DataLoader(text.parent / "shards", global_batch_size=1, microbatches=1,
                                    recipe=isocost.RecipeOptions(max_text_tokens=8),
                                    transform=lambda sample: texts.append(sample.text)) as loader:
                list(loader)
        self.assertTrue(texts[0] and set(texts[0]) == {"\u00e4"}, texts)

    def test_errors_name_the_sample(self):
        def fail(sample):
            if sample.id == 7:
                raise KeyError("no such word")

        with self.assertRaisesRegex(RuntimeError, r"sample 7 \(shard-000000.tar/s0007\): KeyError: 'no such word'"):
            list(self.loader(transform=fail))

    def test_lengths_that_fail_name_the_sample(self):
        def fail(sample):
            return {"tokens": 1} if sample["id"] == 7 else None

        with self.assertRaisesRegex(Exception, "count_tokens= failed for shard-000000.tar/s0007: 'tokens' is neither"):
            list(self.loader(count_tokens=fail))

    def test_collate_runs_ahead_of_the_loop(self):
        ahead = threading.Event()

        def collate(microbatch):
            if (microbatch.step, microbatch.index) == (0, 1):
                ahead.set()
            return threading.current_thread().name

        iterator = iter(self.loader(collate=collate, prefetch=2))
        self.assertTrue(next(iterator).startswith("isocost-transform"))
        self.assertTrue(ahead.wait(30))  # the second, while the first is in use

    def test_collate_may_return_none(self):
        self.assertEqual(list(self.loader(collate=lambda microbatch: None)), [None] * 7)

    def test_collate_may_return_any_object(self):
        handed = list(self.loader(collate=lambda microbatch: (microbatch.step, microbatch.index)))
        self.assertEqual(handed, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)])
        with self.assertRaisesRegex(RuntimeError, "collate= failed for <isocost.Microbatch: epoch 0, step "
                                                  "0.*ZeroDivisionError"):
            list(self.loader(collate=lambda microbatch: 1 // 0))

    def test_state_counts_what_is_trained(self):
        loader = self.loader(transform=lambda sample: None, prefetch=8)
        iterator = iter(loader)
        next(iterator)
        loader.state_dict(after=next(iterator))
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["step"]), (0, 1))
        again = self.loader(transform=lambda sample: None)
        again.load_state_dict(loader.state_dict())
        self.assertEqual(next(iter(again)).step, 1)

    def test_no_thread_survives_close(self):
        loader = self.loader(transform=lambda sample: None)
        next(iter(loader))
        loader.close()
        self.assertEqual(threads_of_isocost(), [])


if __name__ == "__main__":
    main()
