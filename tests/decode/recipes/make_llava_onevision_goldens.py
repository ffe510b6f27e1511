#!/usr/bin/env python3
"""Prints the cases of llava_onevision_test.cc with what transformers' processors make of them.

    pip install numpy "pillow<12.2" torch torchvision transformers
    PYTHONPATH=.. python3 make_llava_onevision_goldens.py > llava_onevision_goldens.txt

A line: side of a tile, number of canvas sizes (1 x 1 to N x N tiles), N of anyres_max_N, images in the sample, width
and height of the picture, its pictures for the encoder, its tokens, and the FNV-1a hash of the pictures' pixels before
they are normalised (row, column, RGB); 0 where only the numbers are compared.
"""

import functools
import types

import numpy
from PIL import Image
from test_pattern import fnv1a, test_pattern
from transformers import LlavaOnevisionProcessor

try:
    from transformers import LlavaOnevisionImageProcessorPil as Images
except ImportError:  # before transformers 5
    from transformers import LlavaOnevisionImageProcessor as Images

# Methods of the processor, of an image and of its tiles.
COUNTS = ("_get_number_of_features", "_get_unpadded_features")

SIDES = [1, 2, 13, 14, 27, 28, 57, 100, 223, 333, 383, 384, 385, 448, 500, 640, 767, 768, 769, 1000, 1151, 1152, 1153,
         1536, 1920, 2303, 2304, 2305, 3000, 4000, 8000]
SMALL = [(10 + i * 37 % 233, 8 + i * 61 % 251) for i in range(100)]
EXTREME = [(2, 200), (200, 2), (4, 90), (90, 4), (28, 28), (29, 29), (56, 56), (57, 56), (56, 57), (1000, 28),
           (28, 1000)]


def canvases(side, most):
    return [[side * (1 + i), side * (1 + j)] for i in range(most) for j in range(most)]


def tokens(side, pins, ratio, width, height):
    """Returns the tokens that the processor counts, which asks its own image processor for the canvases alone."""
    count, of_tiles = (getattr(LlavaOnevisionProcessor, name) for name in COUNTS)
    processor = types.SimpleNamespace(
        image_processor=types.SimpleNamespace(image_grid_pinpoints=pins), num_image_tokens=(side // 14)**2,
        vision_aspect_ratio=f"anyres_max_{ratio}")
    setattr(processor, COUNTS[1], functools.partial(of_tiles, processor))
    return count(processor, height, width, side, side)


def show(side, most, ratio, images, width, height, hashed):
    pins = canvases(side, most)
    made = tokens(side, pins, ratio, width, height) if images == 1 else (side // 14)**2 + 1
    pictures, value = 0, 0
    if hashed:
        processor = Images(size={"height": side, "width": side}, image_grid_pinpoints=pins, do_rescale=False,
                           do_normalize=False, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        picture = Image.fromarray(test_pattern(width, height))
        pixels = processor([[picture] * images], return_tensors="np")["pixel_values"][0]
        pictures = len(pixels)
        value = fnv1a(numpy.ascontiguousarray(pixels.transpose(0, 2, 3, 1)).astype(numpy.uint8).tobytes())
    print(side, most, ratio, images, width, height, pictures, made, f"{value:016x}")


if __name__ == "__main__":
    for w in SIDES:
        for h in SIDES:
            show(384, 6, 9, 1, w, h, False)
            show(384, 3, 4, 1, w, h, False)
            show(56, 6, 9, 1, w, h, False)
    for size in SMALL + EXTREME:
        show(28, 6, 9, 1, *size, True)
        show(28, 6, 9, 2, *size, True)
    for size in SMALL[::4]:
        show(61, 3, 2, 1, *size, True)
        show(61, 3, 2, 3, *size, True)
    for size in ((640, 480), (333, 517)):
        show(384, 6, 9, 1, *size, True)
        show(384, 6, 9, 2, *size, True)
