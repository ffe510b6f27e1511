"""Normalised pixels: one pass on the CPU, torch elsewhere, the same values bit by bit."""

import gc
import unittest

import torch

from isocost.microbatches.model_inputs import Normalised, pictures_by_torch, rows_by_torch
from support import main

# The settings of Qwen2-VL and CLIP.
DESCRIPTION = {"rescale_factor": 1 / 255, "image_mean": [0.48145466, 0.4578275, 0.40821073],
               "image_std": [0.26862954, 0.26130258, 0.27577711]}


def pixels(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(7))


def by_processor(values):
    """Computes the values like transformers, for bytes [n, 3, height, width]."""
    scaled = (values.double() * DESCRIPTION["rescale_factor"]).float()
    mean, std = (torch.tensor(DESCRIPTION[name])[:, None, None] for name in ("image_mean", "image_std"))
    return (scaled - mean) / std


def cut(pictures):
    """Patches of pictures [n, 3, height, width], in groups of 2 x 2, filled up with 99."""
    count, _, height, width = pictures.shape
    rows, columns = -(-height // 28), -(-width // 28)
    whole = torch.full((count, 3, rows * 28, columns * 28), 99, dtype=torch.uint8)
    whole[:, :, :height, :width] = pictures
    groups = whole.view(count, 3, rows, 2, 14, columns, 2, 14).permute(0, 2, 5, 3, 6, 4, 7, 1)
    return groups.reshape(-1, 588)


class Pictures(unittest.TestCase):
    def setUp(self):
        self.normalised = Normalised(DESCRIPTION)

    def test_are_those_of_the_processor(self):
        for height, width in ((28, 28), (384, 384), (336, 300), (1, 1), (15, 57), (29, 14)):
            shown = pixels(3, 3, height, width)
            made = self.normalised.pictures(cut(shown), height, width)
            self.assertEqual(made.shape, shown.shape)
            self.assertTrue(torch.equal(made, by_processor(shown)), f"{height} x {width}")
            self.assertTrue(torch.equal(made, pictures_by_torch(self.normalised.table, cut(shown), height, width)))

    def test_of_none_are_none(self):
        self.assertEqual(self.normalised.pictures(torch.empty(0, 588, dtype=torch.uint8), 30, 40).shape, (0, 3, 30, 40))

    def test_refuses_what_are_no_pictures(self):
        for patches, height, width in ((pixels(3, 588), 28, 28), (pixels(4, 585), 28, 28), (pixels(4, 588), 0, 28),
                                       (pixels(4, 588), 28, 1 << 40)):
            with self.assertRaises(ValueError):
                self.normalised.pictures(patches, height, width)


class Rows(unittest.TestCase):
    def test_are_the_same_by_torch(self):
        normalised = Normalised(DESCRIPTION)
        for frames, copies in ((1, 2), (2, 1), (1, 1)):
            rows = pixels(6, 588)
            made = normalised.rows(rows, frames, copies)
            self.assertEqual(made.shape, (6 // frames, 588 * frames * copies))
            self.assertTrue(torch.equal(made, rows_by_torch(normalised.table, rows, frames, copies)))


    def test_refuses_what_are_no_frames(self):
        normalised = Normalised(DESCRIPTION)
        for frames, copies in ((0, 1), (1, 0), (4, 1), (1, 1 << 62)):
            with self.assertRaises(ValueError):
                normalised.rows(pixels(6, 588), frames, copies)


class Memory(unittest.TestCase):
    def test_is_used_again_when_its_tensor_is_dropped(self):
        normalised = Normalised(DESCRIPTION)
        kept = normalised.rows(pixels(64, 588), 1, 2)
        before = kept.clone()
        dropped = normalised.rows(pixels(64, 588), 1, 2)
        address = dropped.data_ptr()
        self.assertNotEqual(address, kept.data_ptr())
        del dropped
        gc.collect()
        # The next batch may have fewer pictures.
        self.assertEqual(normalised.rows(pixels(50, 588), 1, 2).data_ptr(), address)
        self.assertTrue(torch.equal(kept, before))


if __name__ == "__main__":
    main()
