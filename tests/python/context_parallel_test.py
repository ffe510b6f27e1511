"""Context-parallel parts of a packed microbatch: together they are the whole."""

import types
import unittest

import torch

import isocost
from support import main


def microbatch(lengths, model):
    """Returns a microbatch like the loader's, with or without a model's arguments."""
    tokens = sum(lengths)
    sums = torch.tensor([0, *lengths]).cumsum(0).int()
    ids = torch.arange(tokens) + 1000
    labels = torch.where(torch.arange(tokens) % 3 == 0, -100, ids)
    labels[sums[:-1].long()] = -100
    packed = {"input_ids": ids, "labels": labels, "lengths": sums.diff(), "cu_seqlens": sums,
              "position_ids": torch.cat([torch.arange(length) for length in lengths]),
              "loss_weights": torch.cat([torch.full((length,), 1 + 0.5 * i) for i, length in enumerate(lengths)])}
    tensors = packed
    if model:
        positions = torch.arange(4 * tokens).view(4, 1, tokens)
        tensors = {"input_ids": ids[None], "labels": labels[None], "position_ids": positions, "use_cache": False,
                   "pixel_values": torch.ones(3, 5)}
    return types.SimpleNamespace(tensors=tensors, packed=packed, global_label_tokens=17, has_decoder=False)


class ContextPart(unittest.TestCase):
    def each_part(self, lengths, size, split, model=False):
        given = microbatch(lengths, model)
        return given, [isocost.context_part(given, rank, size, split) for rank in range(size)]

    def test_every_token_is_in_one_part(self):
        for split in ("zigzag", "contiguous"):
            for size in (1, 2, 3, 4):
                for lengths in ([1], [5, 8, 1], [16, 32], [3] * 7):
                    given, parts = self.each_part(lengths, size, split)
                    indices = torch.cat([part.indices for part in parts])
                    self.assertEqual(sorted(indices[indices >= 0].tolist()), list(range(sum(lengths))))
                    self.assertEqual(len({len(part.indices) for part in parts}), 1)
                    ids = torch.cat([part.arguments["input_ids"] for part in parts])
                    self.assertTrue(torch.equal(ids[indices >= 0], given.packed["input_ids"][indices[indices >= 0]]))
                    self.assertEqual(ids[indices < 0].count_nonzero(), 0)

    def test_zigzag_parts_have_equal_work_under_a_causal_mask(self):
        given, parts = self.each_part([64, 128], 4, "zigzag")
        work = [int(given.packed["position_ids"][part.indices].sum()) for part in parts]
        self.assertEqual(len(set(work)), 1)
        for part in parts:
            self.assertEqual(part.arguments["cu_seqlens"].tolist(), [0, 16, 48])
            self.assertEqual(part.arguments["lengths"].tolist(), [16, 32])
            self.assertTrue(torch.equal(part.arguments["position_ids"], given.packed["position_ids"][part.indices]))

    def test_zigzag_pieces_are_the_front_and_its_counterpart(self):
        _given, parts = self.each_part([6, 3], 2, "zigzag")
        self.assertEqual(parts[0].indices.tolist(), [0, 1, -1, -1, 6, -1])
        self.assertEqual(parts[1].indices.tolist(), [2, 3, 4, 5, 7, 8])

    def test_contiguous_parts_know_the_sequences_of_the_whole_row(self):
        _given, parts = self.each_part([5, 4], 2, "contiguous", model=True)
        self.assertEqual(parts[0].indices.tolist(), [0, 1, 2, 3, 4])
        self.assertEqual(parts[1].indices.tolist(), [5, 6, 7, 8, -1])
        for part in parts:
            self.assertEqual(part.arguments["cu_seq_lens_q"].tolist(), [0, 5, 9, 10])
            self.assertEqual(part.arguments["max_length_q"], 5)

    def test_a_label_is_that_of_the_next_token_wherever_that_is(self):
        for split in ("zigzag", "contiguous"):
            given, parts = self.each_part([7, 12, 5], 3, split, model=True)
            labels = torch.cat([given.packed["labels"][1:], torch.tensor([-100])])
            for part in parts:
                own = part.indices >= 0
                self.assertTrue(torch.equal(part.arguments["shift_labels"][0, own], labels[part.indices[own]]))
                self.assertTrue((part.arguments["shift_labels"][0, ~own] == -100).all())
                self.assertEqual(part.arguments["position_ids"].shape, (4, 1, len(part.indices)))
                self.assertIs(part.arguments["pixel_values"], given.tensors["pixel_values"])

    def test_losses_of_parts_add_up_to_that_of_the_microbatch(self):
        torch.manual_seed(0)
        for model in (False, True):
            given = microbatch([9, 30, 1, 4], model)
            given.get = given.tensors.get
            given.packed["labels"] = given.packed["labels"].clamp(max=40)
            logits = torch.randn(44, 50)
            whole = isocost.token_loss(logits, given)
            for split in ("zigzag", "contiguous"):
                parts = [isocost.context_part(given, rank, 4, split) for rank in range(4)]
                shares = [part.token_loss(part.take(logits, dim=0)) for part in parts]
                self.assertAlmostEqual(sum(shares).item(), whole.item(), places=5)

    def test_bad_arguments_are_named(self):
        given = microbatch([4], model=True)
        with self.assertRaisesRegex(ValueError, "split = 'ring'"):
            isocost.context_part(given, 0, 2, "ring")
        with self.assertRaisesRegex(ValueError, "rank = 2 of 2"):
            isocost.context_part(given, 2, 2)
        given.tensors["attention_mask"] = torch.ones(1, 4)
        with self.assertRaisesRegex(ValueError, "packed samples"):
            isocost.context_part(given, 0, 2)


if __name__ == "__main__":
    main()
