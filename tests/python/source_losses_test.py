"""Losses by source of a mixture: of packed and padded rows, over ranks, and of what does not count."""

import math
import pathlib
import types
import unittest

import torch

import isocost
from support import ShardTest, main, summary, torchrun

KEYS = ("captions/0.tar/a", "documents/9.tar/b", "captions/1.tar/c")
LENGTHS = (4, 6, 3)


def loss_of(microbatch):
    """Returns a loss for each position, which follows from the next one's label."""
    labels = microbatch.packed["labels"]
    return torch.cat([labels[1:] % 7 + 1.0, torch.full((1,), float("nan"))])


def sums_by_source(loader):
    """The sums and counts of what loss_of gives, sample by sample."""
    sums = {}
    for microbatch in loader:
        for key, weight, labels in zip(microbatch.sample_keys, microbatch.sample_weights,
                                       microbatch["labels"].split(microbatch["lengths"].tolist())):
            if weight:
                total = sums.setdefault(key.split("/")[0], [0.0, 0])
                labels = labels[labels != -100]
                total[0] += float((labels % 7 + 1).sum())
                total[1] += len(labels)
    return sums


class Given:
    """A microbatch like the loader's, of three samples, and maybe a dummy after them."""

    def __init__(self, mask=None, dummy=0):
        lengths = [*LENGTHS, *([dummy] if dummy else [])]
        self.sample_keys = list(KEYS)
        self.has_decoder = False
        labels = torch.arange(100, 100 + sum(lengths))
        labels[torch.tensor([0, *lengths]).cumsum(0)[:-1]] = -100
        labels[2] = -100  # A turn of the user.
        if dummy:
            labels[-dummy:] = -100
        self.packed = {"labels": labels, "lengths": torch.tensor(lengths).int(),
                       "loss_weights": torch.ones(len(labels))}
        self.shown = {} if mask is None else {"attention_mask": mask}

    def get(self, name):
        return self.shown.get(name)

    def __getitem__(self, name):
        return self.shown[name]


NAMES = ["captions", "documents"]


def packed_losses(microbatch):
    """The loss of label n is n; a position without a label has one that would show."""
    labels = microbatch.packed["labels"].double()
    return torch.cat([labels[1:], torch.tensor([1e9]).double()]).where(
        torch.cat([labels[1:] != -100, torch.tensor([False])]), torch.tensor(1e9).double())


# Labels 101, 103 and 111, 112 are of captions, 105 to 109 of documents.
SUMS = {"captions": 101 + 103 + 111 + 112, "documents": 105 + 106 + 107 + 108 + 109}
COUNTS = {"captions": 4, "documents": 5}


class Rows(unittest.TestCase):
    def assert_found(self, found):
        self.assertEqual(dict(zip(found.names, found.sums.tolist())), SUMS)
        self.assertEqual(dict(zip(found.names, found.counts.tolist())), COUNTS)

    def padded(self, left, longest=8):
        """A padded microbatch, and its losses in the same rows."""
        mask = torch.zeros(3, longest, dtype=torch.long)
        losses = torch.full((3, longest), 1e9).double()
        packed = packed_losses(Given()).split(list(LENGTHS))
        for row, length in enumerate(LENGTHS):
            begin = longest - length if left else 0
            mask[row, begin:begin + length] = 1
            losses[row, begin:begin + length] = packed[row]
        return Given(mask), losses

    def test_packed_rows(self):
        given = Given()
        losses = packed_losses(given)
        for shape in (losses, losses[None], losses[:-1], losses[None, :-1]):
            self.assert_found(isocost.losses_by_source(given, shape, NAMES))
        found = isocost.losses_by_source(given, losses, ["other", "documents", "captions"])
        self.assertEqual(found.sums.tolist(), [0, SUMS["documents"], SUMS["captions"]])
        self.assertEqual(found.means()["documents"], SUMS["documents"] / COUNTS["documents"])
        self.assertTrue(math.isnan(found.means()["other"]))

    def test_padded_rows(self):
        for left in (False, True):
            given, losses = self.padded(left)
            self.assert_found(isocost.losses_by_source(given, losses, NAMES))
            self.assert_found(isocost.losses_by_source(given, losses[:, :-1], NAMES))
            self.assert_found(isocost.losses_by_source(given, packed_losses(given), NAMES))

    def test_rows_of_a_decoder_are_not_shifted(self):
        given = Given()
        given.has_decoder = True
        rows = [labels[1:] for labels in given.packed["labels"].split(list(LENGTHS))]
        labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
        given.shown["labels"] = labels
        self.assert_found(isocost.losses_by_source(given, torch.where(labels == -100, 1e9, labels.double()), NAMES))
        with self.assertRaisesRegex(ValueError, r"losses of shape \[3, 6\]: they must have one of \[3, 5\]"):
            isocost.losses_by_source(given, torch.zeros(3, 6), NAMES)

    def test_dummies_repeats_and_tokens_without_weight_do_not_count(self):
        given = Given(dummy=5)
        self.assert_found(isocost.losses_by_source(given, packed_losses(given), NAMES))
        given.packed["loss_weights"][4:10] = 0
        found = isocost.losses_by_source(given, packed_losses(given), NAMES)
        self.assertEqual(found.counts.tolist(), [4, 0])
        self.assertEqual(found.sums.tolist(), [SUMS["captions"], 0])
        given.packed["loss_weights"][10:] = 0.25  # A factor of the loss does not change what counts.
        self.assertEqual(isocost.losses_by_source(given, packed_losses(given), NAMES).sums[0], SUMS["captions"])

    def test_they_are_added(self):
        given = Given()
        one = isocost.losses_by_source(given, packed_losses(given), NAMES)
        both = one + one
        self.assertEqual(both.counts.tolist(), [8, 10])
        self.assertEqual(both.means(), one.means())
        with self.assertRaisesRegex(ValueError, "sources captions, documents and captions: give both calls"):
            one + isocost.SourceLosses(["captions"], torch.zeros(2, 1))

    def test_gradients_and_low_precision(self):
        given = Given()
        losses = packed_losses(given).to(torch.bfloat16).requires_grad_()
        found = isocost.losses_by_source(given, losses, NAMES)
        self.assertFalse(found.totals.requires_grad)
        self.assertEqual(found.totals.dtype, torch.float64)
        self.assertAlmostEqual(float(found.sums[0]), SUMS["captions"], delta=4)

    def test_what_cannot_be_is_named(self):
        given = Given()
        losses = packed_losses(given)
        for wrong in (losses[:5], losses.sum(), losses.reshape(1, 1, -1), torch.zeros(13, 1)):
            with self.assertRaisesRegex(ValueError, r"losses of shape .*: they must have one of \[13\] \[1, 13\] "
                                                    r"\[12\] \[1, 12\], .*reduction=\"none\""):
                isocost.losses_by_source(given, wrong, NAMES)
        with self.assertRaisesRegex(ValueError, "sample 'documents/9.tar/b' is of none of the sources captions"):
            isocost.losses_by_source(given, losses, ["captions"])
        for names in (["captions", "captions"], "captions"):
            with self.assertRaisesRegex(ValueError, "a list of different names"):
                isocost.losses_by_source(given, losses, names)
        with self.assertRaisesRegex(ValueError, "has no labels"):
            isocost.losses_by_source(types.SimpleNamespace(packed={}), losses, NAMES)


class Training(ShardTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shards = sorted(pathlib.Path(cls.shards).glob("*.tar"))
        cls.mixture = cls.directory / "mixture.toml"
        cls.mixture.write_text("steps = 6\n" + "\n".join(
            f'[[source]]\nname = "{name}"\npath = "{path}"\nproportion = {proportion}\n'
            for name, path, proportion in (("many", shards[1], 3), ("few", shards[0], 1))))

    def loader_of(self, data, **options):
        loader = isocost.DataLoader(data, **options)
        self.addCleanup(loader.close)
        return loader

    def test_sources_are_those_of_the_mixture(self):
        self.assertEqual(self.loader_of(self.mixture).sources, ["few", "many"])
        self.assertEqual(self.loader_of(self.shards).sources, [])

    def test_sums_are_those_of_the_samples(self):
        expected = sums_by_source(self.loader_of(self.mixture, global_batch_size=8, microbatches=2))
        loader = self.loader_of(self.mixture, global_batch_size=8, microbatches=2)
        total = sum(isocost.losses_by_source(microbatch, loss_of(microbatch), loader.sources) for microbatch in loader)
        self.assertEqual({name: [total.sums[i], total.counts[i]] for i, name in enumerate(total.names)}, expected)

    def test_they_make_up_the_loss(self):
        loader = self.loader_of(self.mixture, global_batch_size=8, microbatches=2)
        for microbatch in loader:
            torch.manual_seed(microbatch.index)
            logits = torch.randn(microbatch.tokens, int(microbatch["labels"].max()) + 1).double()
            losses = torch.nn.functional.cross_entropy(logits[:-1], microbatch["labels"][1:], reduction="none")
            found = isocost.losses_by_source(microbatch, losses, loader.sources)
            loss = isocost.token_loss(logits, microbatch) * microbatch.global_label_tokens
            self.assertAlmostEqual(float(found.sums.sum()), float(loss), places=6)
            self.assertEqual(int(found.counts.sum()), microbatch.label_tokens)

    def test_ranks_sum_theirs(self):
        expected = sums_by_source(self.loader_of(self.mixture, global_batch_size=8, microbatches=2))
        rank = pathlib.Path(__file__).with_name("source_losses_rank.py")
        for each in summary(torchrun([rank, self.mixture], 2).stdout):
            self.assertEqual({name: [total, count] for name, total, count in
                              zip(each["names"], each["sums"], each["counts"])}, expected)
            self.assertEqual(each["means"], {name: total / count for name, (total, count) in expected.items()})


if __name__ == "__main__":
    main()
