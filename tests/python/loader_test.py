"""The loader, embedded and from a node, in one process."""

import contextlib
import gc
import inspect
import itertools
import json
import pathlib
import subprocess
import time
import types
import unittest
import unittest.mock
import warnings
import weakref

import numpy
import torch
import torch.utils.checkpoint

import isocost
from isocost.options import keywords
from support import PROGRAM, SAMPLES, TIMEOUT, ShardTest, main, png, png_rows


class Iterating(ShardTest):
    STILL = isocost.NodeOptions(correct=False)  # Plans do not follow measured seconds.

    def loader(self, **options):
        loader = isocost.DataLoader(self.shards, **{"global_batch_size": 16, "microbatches": 2, **options})
        self.addCleanup(loader.close)
        return loader

    def test_an_epoch_has_every_sample_once(self):
        loader = self.loader()
        ids = [sample for microbatch in loader for sample in microbatch.sample_ids]
        self.assertEqual(sorted(ids), list(range(SAMPLES)))

    def test_a_list_of_paths_is_one_data_set(self):
        shards = sorted(pathlib.Path(self.shards).glob("*.tar"))
        for data in (shards, f"{self.shards}/*.tar"):
            with isocost.DataLoader(data, global_batch_size=8, epochs=1) as loader:
                self.assertEqual(sum(len(microbatch.sample_ids) for microbatch in loader), SAMPLES)
        with self.assertRaisesRegex(ValueError, "the endpoint of a node is given alone"):
            isocost.DataLoader([self.shards, "tcp://127.0.0.1:1"])

    def test_a_mixture_with_proportions_is_not_evaluated_on(self):
        shards = sorted(pathlib.Path(self.shards).glob("*.tar"))
        mixture = pathlib.Path(self.shards).parent / "held_out.toml"
        sources = "".join(f'[[source]]\nname = "{shard.stem}"\npath = "{shard}"\nPROPORTION\n' for shard in shards)
        for head, proportion in (("steps = 4\n", "proportion = 1.0"), ("", "proportion = 1.0\nepochs = 1")):
            mixture.write_text(head + sources.replace("PROPORTION", proportion))
            loader = self.loader_of(mixture, global_batch_size=8, microbatches=1)
            self.assertTrue(loader.has_length and loader.has_proportions)
            with self.assertRaisesRegex(ValueError, "evaluate: two evaluations of a mixture .* with proportions would"):
                isocost.evaluate(loader, lambda microbatch: (1.0, 1.0))
        mixture.write_text(sources.replace("PROPORTION", ""))
        loader = self.loader_of(mixture, global_batch_size=8, microbatches=1)
        self.assertFalse(loader.has_proportions)
        self.assertEqual(isocost.evaluate(loader, lambda microbatch: (1.0, 1.0)).samples, len(loader.dataset))

    def test_skipped_steps_leave_the_others_as_they_are(self):
        def steps(**options):
            loader = self.loader_of(self.shards, global_batch_size=8, microbatches=1, **options)
            return len(isocost.steps(loader)), [sorted(each.sample_ids) for each in loader]

        count, whole = steps()
        left, skipping = steps(node=isocost.NodeOptions(skip_steps=["1-2"]))
        self.assertEqual((left, skipping), (count - 2, whole[:1] + whole[3:]))
        with self.assertRaisesRegex(ValueError, "skip_steps leaves out step 99, and there are .* an epoch"):
            steps(node=isocost.NodeOptions(skip_steps=["99"]))

    def test_a_mixture_gives_every_step_its_proportions(self):
        shards = sorted(pathlib.Path(self.shards).glob("*.tar"))
        sources = [f'[[source]]\nname = "{name}"\npath = "{path}"\nproportion = {proportion}\n'
                   for name, path, proportion in (("few", shards[0], 1), ("many", shards[1], 3))]
        mixture = pathlib.Path(self.shards).parent / "mixture.toml"
        mixture.write_text("\n".join(sources))
        loader = self.loader_of(mixture, global_batch_size=8, microbatches=1)
        with self.assertRaisesRegex(TypeError, "a mixture of data sets has no length"):
            len(loader)
        for microbatch in itertools.islice(loader, 10):
            names = [name.split("/")[0] for name in microbatch.sample_keys]
            self.assertEqual((names.count("few"), names.count("many")), (2, 6))

    def loader_of(self, data, **options):
        loader = isocost.DataLoader(data, **options)
        self.addCleanup(loader.close)
        return loader

    def test_len_is_the_number_of_microbatches(self):
        for options in ({}, {"microbatches": 4}, {"node": isocost.NodeOptions(tail="drop")},
                        {"global_batch_size": 25}):
            loader = self.loader(**options)
            self.assertEqual(len(loader), sum(1 for _ in loader), options)

    def test_a_limit_holds_and_each_step_chooses_its_number_of_microbatches(self):
        whole = self.loader(microbatches=1, node=self.STILL)
        most = max(microbatch.tokens for microbatch in whole)
        longest = max(int(length) for microbatch in whole for length in microbatch["lengths"])
        loader = self.loader(microbatches=None, max_tokens=max(most // 3, longest), node=self.STILL)
        numbers, ended, ids = {}, set(), []
        for microbatch in loader:
            self.assertLessEqual(microbatch.tokens, max(most // 3, longest))
            numbers[microbatch.step] = numbers.get(microbatch.step, 0) + 1
            ids += microbatch.sample_ids
            self.assertNotIn(microbatch.step, ended)
            if microbatch.last_of_step:
                ended.add(microbatch.step)
        self.assertEqual(sorted(ids), list(range(SAMPLES)))
        self.assertEqual(ended, set(numbers))
        self.assertGreater(max(numbers.values()), 2)
        self.assertIsNone(loader.batch_size)
        with self.assertRaisesRegex(TypeError, "each step decides"):
            len(loader)

    def test_a_state_within_an_epoch_of_chosen_numbers_resumes(self):
        options = {"microbatches": None, "max_tokens": 600, "node": self.STILL}
        whole = [list(microbatch.sample_ids) for microbatch in self.loader(**options)]
        loader = self.loader(**options)
        taken = []
        for microbatch in loader:
            taken.append(list(microbatch.sample_ids))
            if microbatch.last_of_step and microbatch.step == 1:
                break
        rest = self.loader(**options)
        rest.load_state_dict(loader.state_dict(after=microbatch))
        self.assertEqual(taken + [list(microbatch.sample_ids) for microbatch in rest], whole)

    def test_a_sample_above_a_limit_is_bad_before_training(self):
        whole = self.loader(microbatches=1)
        longest = max(int(length) for microbatch in whole for length in microbatch["lengths"])
        node = isocost.NodeOptions(max_bad_samples=SAMPLES, bad_samples_file=self.directory / "long.jsonl")
        loader = self.loader(microbatches=None, max_tokens=longest - 1, node=node)
        self.assertLess(len(loader.dataset), SAMPLES)
        reasons = [json.loads(line)["reason"] for line in (self.directory / "long.jsonl").read_text().splitlines()]
        self.assertEqual(len(reasons), SAMPLES - len(loader.dataset))
        self.assertIn(f"has {longest:,} LLM tokens, and max_tokens allows {longest - 1:,}", reasons[0])
        self.assertLess(max(microbatch.tokens for microbatch in loader), longest)

    def test_a_fixed_number_that_does_not_fit_is_refused_with_the_numbers(self):
        longest = max(int(length) for microbatch in self.loader(microbatches=1) for length in microbatch["lengths"])
        with self.assertRaisesRegex(ValueError, r"a step of 16 samples does not fit: .*\(max_tokens\).* too many"):
            list(self.loader(microbatches=2, max_tokens=longest))

    def test_an_endless_loader_has_no_length_and_goes_on(self):
        loader = self.loader(endless=True)
        with self.assertRaises(TypeError):
            len(loader)
        epochs = {microbatch.epoch for microbatch in itertools.islice(loader, 20)}
        self.assertEqual(epochs, {0, 1, 2})

    def test_epochs_differ_and_repeat_with_the_seed(self):
        def order(loader):
            return [tuple(microbatch.sample_ids) for microbatch in loader]

        first = self.loader(node=self.STILL)
        second = self.loader(node=self.STILL)
        epochs = [order(first), order(first)]
        self.assertNotEqual(epochs[0], epochs[1])
        self.assertEqual(epochs, [order(second), order(second)])
        self.assertNotEqual(order(self.loader(seed=1, node=self.STILL)), epochs[0])

    def test_a_loop_over_a_loader_that_nobody_keeps(self):
        options = {"global_batch_size": 16, "microbatches": 2}
        ids = [id_ for each in isocost.DataLoader(self.shards, **options) for id_ in each.sample_ids]
        self.assertEqual(sorted(ids), list(range(SAMPLES)))
        steps = iter(isocost.steps(isocost.DataLoader(self.shards, **options)))
        gc.collect()
        self.assertEqual(sum(1 for _ in steps), 4)

    def test_set_epoch_chooses_the_epoch(self):
        loader = self.loader(node=self.STILL)
        epochs = [[microbatch.sample_ids for microbatch in loader] for _ in range(3)]
        loader.set_epoch(1)
        self.assertEqual([microbatch.sample_ids for microbatch in loader], epochs[1])
        loader.set_epoch(2)  # the next one anyway
        self.assertEqual([microbatch.sample_ids for microbatch in loader], epochs[2])

    def test_a_microbatch_that_could_not_be_handed_out_is_tried_again(self):
        for failing, options in (("isocost.connection.connection.moved", {"device": "meta"}),
                                 ("isocost.connection.connection.finished", {}),
                                 ("isocost.connection.connection.moved",
                                  {"device": "meta", "collate": lambda made: made})):
            for at in (0, 1):
                loader = self.loader(**options)
                len(loader)  # Connects, from when on the state has a cursor.
                epoch, ids = iter(loader), []
                for _ in range(at):
                    ids += next(epoch).sample_ids
                state = loader.state_dict()
                with unittest.mock.patch(failing, side_effect=MemoryError), self.assertRaises(MemoryError):
                    next(epoch)
                self.assertEqual(loader.state_dict(), state)
                ids += [sample for microbatch in epoch for sample in microbatch.sample_ids]
                self.assertEqual(sorted(ids), list(range(SAMPLES)), (failing, at))

    def test_an_epoch_left_by_break_begins_anew(self):
        loader = self.loader(node=self.STILL)
        whole = [microbatch.sample_ids for microbatch in loader]
        loader.set_epoch(0)
        for microbatch in loader:
            if microbatch.step == 1:
                break
        del microbatch
        self.assertEqual([microbatch.sample_ids for microbatch in loader], whole)

    def test_a_loop_that_takes_as_many_as_its_length_ends_the_epoch(self):
        loader, plain = self.loader(node=self.STILL), self.loader(node=self.STILL)
        kept = []
        for epoch in range(3):
            iteration = iter(loader)
            kept.append(iteration)  # It need not be dropped.
            taken = [next(iteration) for _ in range(len(loader))]
            self.assertEqual({microbatch.epoch for microbatch in taken}, {epoch})
            self.assertEqual([microbatch.last_of_epoch for microbatch in taken], [False] * (len(taken) - 1) + [True])
            state = loader.state_dict(after=taken[-1])
            self.assertEqual((state["epoch"], state["step"]), (epoch + 1, 0))
            self.assertEqual([microbatch.sample_ids for microbatch in taken],
                             [microbatch.sample_ids for microbatch in plain])
        first = next(iter(loader))
        self.assertEqual((first.epoch, first.step), (3, 0))
        for iteration in kept:
            self.assertRaises(StopIteration, next, iteration)

    def test_an_iteration_that_was_left_at_its_end_ends_when_it_is_asked_again(self):
        loader = self.loader()
        iteration = iter(loader)
        for _ in range(len(loader)):
            next(iteration)
        self.assertRaises(StopIteration, next, iteration)
        self.assertRaises(StopIteration, next, iteration)
        self.assertEqual({microbatch.epoch for microbatch in loader}, {1})

    def test_after_the_last_epoch_an_iteration_is_empty(self):
        loader = self.loader(epochs=2)
        for epoch in range(2):
            iteration = iter(loader)
            self.assertEqual({next(iteration).epoch for _ in range(len(loader))}, {epoch})
        self.assertEqual(list(loader), [])
        self.assertEqual(list(loader), [])
        loader.set_epoch(0)
        with self.assertRaisesRegex(ValueError, "every epoch has been delivered, and the node begins no other job"):
            list(loader)

    def test_the_last_step_of_bad_samples_alone_ends_the_epoch(self):
        files = self.directory / "last_is_bad"
        files.mkdir()
        for i in range(4):
            (files / f"s{i}.txt").write_text("text")
        for i in range(4, 6):
            (files / f"s{i}.png").write_bytes(png(28, 28, i)[:-30])
        shards = self.directory / "last_is_bad_shards"
        subprocess.run([PROGRAM, "make-shards", files, shards], check=True, capture_output=True)
        node = isocost.NodeOptions(max_bad_samples=100, bad_samples_file=self.directory / "last_is_bad.jsonl")
        with isocost.DataLoader(shards, global_batch_size=2, microbatches=1, shuffle=False, node=node) as loader:
            for epoch in range(2):
                iteration = iter(loader)  # It is left once it is at its end.
                taken = [next(iteration), next(iteration)]
                self.assertEqual([(each.epoch, each.step, each.last_of_epoch) for each in taken],
                                 [(epoch, 0, False), (epoch, 1, True)])

    def test_an_iterator_from_which_nothing_was_taken_does_not_count(self):
        loader = self.loader(node=self.STILL)
        unused = iter(loader)
        iter(loader)
        epochs = [[microbatch.sample_ids for microbatch in loader] for _ in range(2)]
        self.assertNotEqual(epochs[0], epochs[1])
        iter(loader)
        loader.set_epoch(1)
        iter(loader)
        self.assertEqual([microbatch.sample_ids for microbatch in loader], epochs[1])
        with self.assertRaisesRegex(RuntimeError, "another iteration has begun"):
            next(unused)

    def test_set_epoch_keeps_the_step_of_a_state_within_that_epoch(self):
        whole = [[microbatch.sample_ids for microbatch in loader] for loader in [self.loader(node=self.STILL)] * 3]
        state = {"version": 2, "cursor": None, "epoch": 1, "step": 2}
        for epoch, taken in ((1, whole[1][4:]), (2, whole[2]), (0, whole[0])):
            loader = self.loader(node=self.STILL)
            len(loader)  # Connects, from when on the state has a cursor.
            loader.load_state_dict({**state, "cursor": loader.state_dict()["cursor"]})
            loader.set_epoch(epoch)
            self.assertEqual([microbatch.sample_ids for microbatch in loader], taken, epoch)
            loader.set_epoch(epoch + 1)  # A resumed training does so in every epoch.
            self.assertEqual({microbatch.epoch for microbatch in loader}, {epoch + 1})
            loader.set_epoch(epoch)
            self.assertEqual([microbatch.sample_ids for microbatch in loader], whole[epoch], "trained again")

    def test_what_libraries_read_and_write_of_a_loader(self):
        loader = self.loader()
        self.assertIsNone(loader.sampler)
        self.assertIsNone(loader.batch_sampler)
        next(iter(loader))
        loader._iterator = None  # noqa: SLF001 (torch and Lightning assign it)
        self.assertEqual({microbatch.epoch for microbatch in loader}, {0})
        loader._iterator = None  # noqa: SLF001
        self.assertEqual({microbatch.epoch for microbatch in loader}, {1})

    def test_of_two_iterations_at_once_the_first_is_refused(self):
        loader = self.loader()
        first = iter(loader)
        next(first)
        self.assertEqual(next(iter(loader)).index, 0)
        with self.assertRaisesRegex(RuntimeError, "another iteration has begun.*make a second loader"):
            next(first)

    def test_describes_microbatches(self):
        loader = self.loader()
        for expected, microbatch in enumerate(loader):
            self.assertEqual((microbatch.step, microbatch.index), divmod(expected, 2))
            # The tail, 2 of 50 samples, is one microbatch.
            self.assertEqual(microbatch.last_of_step, microbatch.index == 1 or microbatch.step == 3)
            tensors = microbatch.tensors
            tokens = tensors["input_ids"].numel()
            self.assertEqual(tensors["input_ids"].dtype, torch.int64)
            self.assertEqual(int(tensors["cu_seqlens"][-1]), tokens)
            self.assertEqual(len(tensors["lengths"]), len(microbatch.sample_ids))
            self.assertEqual(int((tensors["labels"] != -100).sum()), microbatch.label_tokens)
            self.assertGreaterEqual(microbatch.global_label_tokens, microbatch.label_tokens)
            self.assertGreater(microbatch.predicted["llm"], 0)
            self.assertEqual("vision_patches" in tensors, microbatch.predicted["vision"] > 0)
            self.assertEqual(set(microbatch.cu_seqlens) - {"vision", "audio"}, {"llm"})
            if "vision_patches" in tensors:
                self.assertEqual(tensors["vision_patches"].shape[1], 588)
                self.assertEqual(int(microbatch.cu_seqlens["vision"][-1]), len(tensors["vision_patches"]))

    def test_text_is_that_of_the_shards(self):
        in_order = isocost.NodeOptions(balance="in-order")
        for microbatch in self.loader(shuffle=False, global_batch_size=2, microbatches=1, node=in_order):
            ids, sums = microbatch.tensors["input_ids"].numpy(), microbatch.tensors["cu_seqlens"].numpy()
            for i, sample in enumerate(microbatch.sample_ids):
                tokens = ids[sums[i]:sums[i + 1]]
                text = bytes(tokens[tokens < 256].astype(numpy.uint8)).decode()
                self.assertTrue(text.startswith(f"sample {sample} "), text)

    def test_pixels_are_those_of_the_shards(self):
        sizes = [(56, 28), (28, 84), (112, 56)]  # multiples of 28, which are not scaled
        files = self.directory / "pictures"
        files.mkdir()
        for i, (width, height) in enumerate(sizes):
            (files / f"p{i}.png").write_bytes(png(width, height, i))
        shards = self.directory / "picture_shards"
        subprocess.run([PROGRAM, "make-shards", files, shards], check=True, capture_output=True)
        in_order = isocost.NodeOptions(balance="in-order")
        with isocost.DataLoader(shards, shuffle=False, global_batch_size=3, microbatches=1, node=in_order) as loader:
            (microbatch,) = loader
            patches = microbatch.tensors["vision_patches"].numpy()
        first = 0
        for sample in microbatch.sample_ids:
            width, height = sizes[sample]
            rows = numpy.frombuffer(b"".join(png_rows(width, height, sample)), numpy.uint8).reshape(height, width, 3)
            # Squares of 28 pixels, row by row; in each 2 × 2 patches of 14 × 14 pixels.
            expected = rows.reshape(height // 28, 2, 14, width // 28, 2, 14, 3).transpose(0, 3, 1, 4, 2, 5, 6)
            expected = expected.reshape(-1, 588)
            self.assertTrue(numpy.array_equal(patches[first:first + len(expected)], expected), sample)
            first += len(expected)
        self.assertEqual(first, len(patches))

    def test_a_loader_from_a_node_gives_the_same(self):
        node, endpoint = self.serve("--ranks", 1, "--global-batch-size", 16, "--microbatches", 2, "--correct", "off")
        with isocost.DataLoader(endpoint) as remote:
            there = [(m.sample_ids, m.plan_hash) for m in remote]
        self.assertEqual(there, [(m.sample_ids, m.plan_hash) for m in self.loader(node=self.STILL)])
        self.assertEqual(node.wait(timeout=10), 0)


class Describing(ShardTest):
    def test_threads_are_named_by_what_they_do(self):
        parts = {f"isocost-{part}" for part in ("worker", "read", "plan", "node", "server", "client")}
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2) as loader:
            next(iter(loader))
            deadline = time.monotonic() + TIMEOUT
            while missing := parts - self.thread_names():  # a thread names itself once it runs
                self.assertLess(time.monotonic(), deadline, missing)
                time.sleep(0.01)

    def thread_names(self):
        names = set()
        for comm in pathlib.Path("/proc/self/task").glob("*/comm"):
            with contextlib.suppress(OSError):  # a thread that has ended
                names.add(comm.read_text().strip())
        return names

    def test_repr_and_properties_before_and_after_use(self):
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2) as loader:
            self.assertEqual(repr(loader), f"<isocost.DataLoader {str(self.shards)!r}: rank 0 of 1, next epoch 0, step "
                                           "0, not connected>")
            self.assertEqual((loader.rank, loader.world_size, loader.layout, loader.place), (0, 1, None, None))
            for microbatch in loader:
                if microbatch.last_of_step:
                    break
            self.assertIn("next epoch 0, step 1, connected>", repr(loader))
        self.assertIn("closed>", repr(loader))

    def test_a_closed_loader_says_so(self):
        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        iterator = iter(loader)
        microbatch = next(iterator)
        loader.close()
        for use in (lambda: iter(loader), lambda: next(iterator), lambda: loader.report(microbatch, 0.1)):
            self.assertRaises(isocost.ClosedError, use)

    def test_batch_size_and_dataset(self):
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2) as loader, \
                isocost.DataLoader(self.shards, global_batch_size=5, microbatches=1, seed=3) as other:
            self.assertEqual((loader.batch_size, other.batch_size), (8, 5))
            self.assertEqual(len(loader.dataset), SAMPLES)
            self.assertIn(f"fingerprint=0x{loader.dataset.fingerprint:016x})", repr(loader.dataset))
            self.assertEqual(loader.dataset, isocost.Dataset(str(self.shards), SAMPLES, other.dataset.fingerprint))
        _node, endpoint = self.serve("--ranks", 3, "--global-batch-size", 16, "--microbatches", 1)
        with isocost.DataLoader(endpoint, rank=1, world_size=3) as third:
            self.assertIsNone(third.batch_size)
            self.assertEqual((third.dataset.data, len(third.dataset)), (endpoint, SAMPLES))


    def test_dir_is_the_public_names(self):
        self.assertEqual(dir(isocost), sorted([*isocost.__all__, "__version__"]))

    def test_signatures_have_no_forward_references(self):
        for name in isocost.__all__:
            thing = getattr(isocost, name)
            for each in (thing, *vars(thing).values()) if isinstance(thing, type) else (thing,):
                if inspect.isfunction(each) or (each is thing and not issubclass(thing, Exception)):
                    self.assertNotIn("ForwardRef", str(inspect.signature(each)), name)


class Memory(ShardTest):
    def test_no_copy_between_the_nodes_memory_and_torch(self):
        def shared_ranges():
            with open("/proc/self/maps") as maps:
                ranges = [line.split()[0].split("-") for line in maps if "memfd:isocost" in line]
            return [(int(begin, 16), int(end, 16)) for begin, end in ranges]

        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2, epochs=1) as loader:
            for microbatch in loader:
                ranges = shared_ranges()
                for name, tensor in microbatch.tensors.items():
                    if not name.endswith("cu_seqlens") and name != "loss_weights":
                        address = tensor.data_ptr()
                        self.assertTrue(any(begin <= address < end for begin, end in ranges), name)
            self.assertEqual(loader.stats()["bytes_copied"], 0)

    def test_tensors_written_in_place_are_not_those_of_the_next_microbatch(self):
        def ids(node, write):
            with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=4, epochs=2, node=node) as loader:
                received = []
                for microbatch in loader:
                    received.append(microbatch.tensors["input_ids"].clone())
                    if write:
                        microbatch.tensors["input_ids"].fill_(-7)
                return received

        written = ids(isocost.NodeOptions(), True)
        copied = ids(isocost.NodeOptions(shared_memory=False), False)
        self.assertEqual(len(written), len(copied))
        for one, other in zip(written, copied):
            self.assertTrue(torch.equal(one, other))

    def test_no_copy_between_the_clients_memory_and_torch(self):
        node = isocost.NodeOptions(shared_memory=False)
        with isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2, epochs=1, node=node) as loader:
            announced = 0
            for microbatch in loader:
                client = loader._connection.client()  # noqa: SLF001
                for name, tensor in microbatch.tensors.items():
                    self.assertTrue(client.owns(tensor.data_ptr()), name)
                    if not name.endswith("cu_seqlens") and name != "loss_weights":
                        announced += tensor.numel() * tensor.element_size()
            self.assertEqual(loader.stats()["bytes_copied"], announced)

    def test_a_kept_tensor_outlives_microbatch_and_loader_and_gives_its_memory_back(self):
        node = isocost.NodeOptions(shared_memory=False)  # whose blocks have the size of a microbatch
        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2, epochs=1, node=node)
        iterator = iter(loader)
        microbatch = next(iterator)
        kept = microbatch.tensors["input_ids"]
        copy = kept.clone()
        del microbatch
        for _microbatch in iterator:
            pass
        del _microbatch, iterator
        gc.collect()
        held = loader.stats()["bytes_in_use"]
        self.assertGreaterEqual(held, kept.numel() * 8)
        self.assertLess(held, 2 * kept.numel() * 8 + 1024)
        loader.close()
        self.assertTrue(torch.equal(kept, copy))

    def test_numpy_reads_without_torch(self):
        with isocost.DataLoader(self.shards, global_batch_size=16) as loader:
            raw = loader._connection.client().next()  # noqa: SLF001
            for name, tensor in raw.tensors:
                array = numpy.asarray(tensor)
                self.assertEqual(array.__array_interface__["data"][0], tensor.data_ptr, name)
                self.assertFalse(array.flags.writeable)
                self.assertEqual(list(array.shape), tensor.shape)

    def test_thousands_of_steps_stay_flat(self):
        def resident():
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * 4096

        with isocost.DataLoader(self.shards, global_batch_size=4, microbatches=1, endless=True,
                                memory="64MiB") as loader:
            iterator = iter(loader)
            samples = 0
            for microbatch in itertools.islice(iterator, 1000):
                loader.report(microbatch, 0.001)
                samples += len(microbatch.sample_ids)
            before = resident()
            for microbatch in itertools.islice(iterator, 9000):
                loader.report(microbatch, 0.001)
                samples += len(microbatch.sample_ids)
            self.assertLess(resident() - before, 8 << 20)
            node = loader.stats()["node"]
            self.assertEqual(node["measurements_rejected"], 0)
            # A microbatch is acknowledged when the loop takes the next one.
            self.assertLess(node["samples"]["delivered"], samples)
            self.assertGreater(node["samples"]["delivered"], samples - 100)
            self.assertGreaterEqual(node["samples"]["planned"], samples)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_tower = torch.nn.Linear(588, 8)
        self.language_model = torch.nn.Sequential(torch.nn.Embedding(260, 8), torch.nn.Linear(8, 260))

    def forward(self, input_ids, vision_patches=None, **_):
        logits = self.language_model(input_ids)
        if vision_patches is not None:
            logits = logits + self.vision_tower(vision_patches.float()).mean()
        return logits


class Tick(torch.autograd.Function):
    """Takes a second of the clock forward and two backward."""

    @staticmethod
    def forward(context, x, clock):
        context.clock = clock
        context.save_for_backward(x)  # So that a checkpoint has to compute it again.
        clock.now += 1.0
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        assert context.saved_tensors
        context.clock.now += 2.0
        return gradient, None


class Ticking(torch.nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        self.clock = clock

    def forward(self, x):
        return self.linear(Tick.apply(x, self.clock))


class CheckpointedModel(torch.nn.Module):
    def __init__(self, clock):
        super().__init__()
        self.embedding = torch.nn.Embedding(300, 16)
        self.inner = Ticking(clock)
        self.head = torch.nn.Linear(16, 300)

    def forward(self, input_ids):
        x = self.embedding(input_ids.long())
        return self.head(torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=self.use_reentrant))


class Measuring(ShardTest):
    def setUp(self):
        self.loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)
        self.addCleanup(self.loader.close)

    def measurements(self):
        return self.loader.stats()["node"]["measurements"]

    def test_timed_blocks_are_reported(self):
        model = Model()
        for microbatch in self.loader:
            with self.loader.timed(microbatch):
                isocost.token_loss(model(**microbatch), microbatch).backward()
        self.assertEqual(self.loader.stats()["reports"], len(self.loader))

    def test_a_block_that_fails_is_not_reported(self):
        for microbatch in self.loader:
            with self.assertRaises(KeyError), self.loader.timed(microbatch):
                raise KeyError
        self.assertEqual(self.loader.stats()["reports"], 0)

    def test_attached_modules_are_timed_forward_and_backward(self):
        model = Model()
        timers = self.loader.attach(model, encoder="vision_tower", llm="language_model")
        for microbatch in itertools.islice(self.loader, 4):
            isocost.token_loss(model(**microbatch), microbatch).backward()
            taken = {name: len(watches) for name, watches in timers.watches.items()}
            self.assertEqual(taken["llm"], 2)  # forward and backward
        self.assertGreaterEqual(self.loader.stats()["reports"], 3)
        timers.remove()
        with self.assertRaisesRegex(ValueError, "it has: .*language_model"):
            self.loader.attach(model, llm="decoder")

    def test_work_after_the_backward_pass_is_not_measured(self):
        model = Model()
        timers = self.loader.attach(model, encoder="vision_tower", llm="language_model")
        for microbatch in itertools.islice(self.loader, 4):
            isocost.token_loss(model(**microbatch), microbatch).backward()
            self.assertIn("llm", timers.watches)
            for watches in timers.watches.values():
                self.assertNotIn(None, [watch.seconds() for watch in watches])  # all have ended

    def test_a_module_that_a_checkpoint_computes_again_is_measured_once(self):
        clock = types.SimpleNamespace(now=0.0)
        clock.perf_counter = lambda: clock.now
        patch = unittest.mock.patch.object(isocost.timing.stopwatch, "time", clock)
        patch.start()
        self.addCleanup(patch.stop)
        model = CheckpointedModel(clock)
        timers = self.loader.attach(model, llm="inner")
        batches = iter(self.loader)
        for model.use_reentrant in (False, True):
            microbatch = next(batches)
            begun = clock.now
            isocost.token_loss(model(microbatch["input_ids"]), microbatch).backward()
            # Forward, in the backward pass forward again, and twice as long backward.
            self.assertEqual(clock.now - begun, 4.0)
            self.assertEqual(sum(watch.seconds() for watch in timers.watches["llm"]), 4.0)

    def test_passes_between_epochs_are_not_measured(self):
        model = Model()
        timers = self.loader.attach(model, llm="language_model")
        for _ in self.loader:
            pass
        for _ in range(100):
            model(torch.zeros(3, dtype=torch.int64))
        self.assertEqual(timers.watches, {})

    def test_a_second_attach_takes_the_first_off(self):
        model = Model()
        first = self.loader.attach(model, llm="language_model")
        self.loader.attach(model, llm="language_model")
        microbatch = next(iter(self.loader))
        model(**microbatch)
        self.assertEqual(first.watches, {})
        with self.assertRaisesRegex(TypeError, "decoder"):
            self.loader.attach(model, decoder="language_model")
        for modules, pattern in (({}, "name a submodule"),
                                 ({"encoder": "vision_tower", "audio": "vision_tower"}, "encoder= stands for")):
            with self.assertRaisesRegex(ValueError, pattern):
                self.loader.attach(model, **modules)

    def test_two_loaders_keep_their_seconds_apart(self):
        model = Model()
        other = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2)  # made last
        self.addCleanup(other.close)
        timers = self.loader.attach(model, llm="language_model")
        for microbatch in itertools.islice(self.loader, 4):
            model(**microbatch)
        for microbatch in itertools.islice(other, 4):
            with other.timed(microbatch):
                pass
        self.assertEqual((self.loader.stats()["reports"], other.stats()["reports"]), (3, 3))
        self.assertEqual(len(timers.watches["llm"]), 1)  # of the fourth, which is in use
        model(torch.zeros(3, dtype=torch.int64))  # belongs to it, too: other's microbatches do not matter
        self.assertEqual(len(timers.watches["llm"]), 2)

    def test_a_dropped_loader_is_freed_at_once(self):
        gc.disable()
        self.addCleanup(gc.enable)
        loader = isocost.DataLoader(self.shards, global_batch_size=16, microbatches=2, transform=lambda sample: None)
        next(iter(loader))
        gone = weakref.ref(loader)
        del loader
        self.assertIsNone(gone())

    def test_a_forward_pass_is_part_of_what_was_measured(self):
        microbatch = next(iter(self.loader))
        with self.assertRaisesRegex(ValueError, "forward_s: 0.3"):
            self.loader.report(microbatch, {"llm": 0.2}, forward=0.3)
        for forward in ("0.1", -1.0, float("nan")):
            with self.assertRaisesRegex(ValueError, "report: forward = "):
                self.loader.report(microbatch, {"llm": 0.2}, forward=forward)
        self.loader.report(microbatch, {"llm": 0.2}, forward=0.1)
        self.assertEqual(self.loader.stats()["reports"], 1)
        with self.assertRaisesRegex(ValueError, "'forward' is no module"):
            self.loader.report(microbatch, {"llm": 0.2, "forward": 0.1})

    def test_reports_are_checked(self):
        iterator = iter(self.loader)
        first = next(iterator)
        self.loader.report(first, {"llm": 0.1})
        for seconds in (float("nan"), -1.0, 1e9, "soon", None, True, {"llm": float("inf")}, {"decoder": 1.0}):
            with self.assertRaisesRegex(ValueError, "report: "):
                self.loader.report(first, seconds)
        for _ in range(4):
            next(iterator)
        with self.assertRaisesRegex(ValueError, "stale"):
            self.loader.report(first, 0.1)


class Keywords(ShardTest):
    def test_each_of_torchs_keywords_is_taken_or_refused_with_a_reason(self):
        theirs = set(inspect.signature(torch.utils.data.DataLoader.__init__).parameters) - {"self"}
        ours = set(inspect.signature(isocost.DataLoader).parameters) - {"torch_options"}
        self.assertEqual(theirs - keywords.KEYWORDS - ours, set())
        self.assertEqual(keywords.KEYWORDS & ours, set())

    def test_the_help_names_each_of_torchs_keywords(self):
        text = inspect.getdoc(isocost.DataLoader)
        self.assertEqual([name for name in sorted(keywords.KEYWORDS) if name not in text], [])

    def test_shuffling_that_torch_would_not_do_is_noted_once(self):
        for options, expected in (({}, 1), ({"shuffle": True}, 0), ({"shuffle": False}, 0)):
            with unittest.mock.patch.object(keywords, "_noted", {"batch_size"}), \
                    warnings.catch_warnings(record=True) as notes:
                warnings.simplefilter("always")
                for _ in range(2):
                    isocost.DataLoader(self.shards, batch_size=8, **options).close()
            self.assertEqual([str(note.message).partition(":")[0] for note in notes],
                             ["shuffle= is left out"] * expected)

    def test_used_keywords_have_their_effect(self):
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            with isocost.DataLoader(self.shards, batch_size=8, shuffle=False, num_workers=2, drop_last=True,
                                    pin_memory=True, worker_init_fn=print) as loader:
                microbatches = list(loader)
        self.assertEqual(len(microbatches), SAMPLES // 8)
        self.assertEqual(len({tuple(microbatch.sample_ids) for microbatch in microbatches}), SAMPLES // 8)
        self.assertEqual([sorted(m.sample_ids) for m in microbatches][0], list(range(8)))

    def test_is_noted_once_at_the_callers_line(self):
        with unittest.mock.patch.object(keywords, "_noted", set()):
            with self.assertWarnsRegex(isocost.KeywordNote, "persistent_workers= is not needed") as noted:
                isocost.DataLoader(self.shards, persistent_workers=True).close()
            self.assertEqual(noted.filename, __file__)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                isocost.DataLoader(self.shards, persistent_workers=True).close()

    def test_torchs_default_values_have_no_effect(self):
        with unittest.mock.patch.object(keywords, "_noted", set()), warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(keywords.take({"num_workers": 0, "timeout": 0, "drop_last": False, "pin_memory": False,
                                            "persistent_workers": False}, note=True), {})

    def test_batch_size_is_the_keywords(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", isocost.KeywordNote)
            for microbatches in (None, 4):
                with isocost.DataLoader(self.shards, batch_size=2, microbatches=microbatches) as loader:
                    self.assertEqual(loader.batch_size, 2)

    def test_settings_of_the_node_are_no_keywords(self):
        with self.assertRaisesRegex(TypeError, r"no keyword 'balance'; .*node=isocost.NodeOptions\(balance="):
            isocost.DataLoader(self.shards, balance="tokens")
        with self.assertRaisesRegex(TypeError, r"no keyword 'video_fps'; .*recipe=isocost.RecipeOptions\(video_fps="):
            isocost.DataLoader(self.shards, video_fps=2)

    def test_shuffle_off_is_the_order_of_the_shards_and_on_is_not(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", isocost.KeywordNote)
            for shuffle in (False, True):
                with isocost.DataLoader(self.shards, batch_size=1, shuffle=shuffle) as loader:
                    ids = [sample for microbatch in loader for sample in microbatch.sample_ids]
                self.assertEqual(sorted(ids), list(range(SAMPLES)))
                self.assertEqual(ids == sorted(ids), not shuffle)

    def test_blocks_take_one_window_of_shards_after_another(self):
        node = isocost.NodeOptions(shuffle_shards=1)
        with isocost.DataLoader(self.shards, global_batch_size=1, microbatches=1, epochs=1, shuffle="blocks",
                                node=node) as loader:
            samples = [(sample, key) for microbatch in loader
                       for sample, key in zip(microbatch.sample_ids, microbatch.sample_keys)]
        self.assertEqual(sorted(sample for sample, _ in samples), list(range(SAMPLES)))
        shards = [key for key, _ in itertools.groupby(key.split("/")[0] for _, key in samples)]
        self.assertEqual(len(shards), len(set(shards)))
        self.assertGreater(len(shards), 1)

    def test_refused_and_unknown_keywords(self):
        with self.assertRaisesRegex(ValueError, "sampler= is refused: the order follows"):
            isocost.DataLoader(self.shards, sampler=[1, 2])
        with self.assertRaisesRegex(TypeError, "no keyword 'batchsize'"):
            isocost.DataLoader(self.shards, batchsize=8)


if __name__ == "__main__":
    main()
