#!/usr/bin/env python3
"""Prints the cases of internvl_test.cc with what transformers' image processor makes of them.

    pip install numpy "pillow<12.2" torch torchvision transformers
    PYTHONPATH=.. python3 make_internvl_goldens.py > internvl_goldens.txt

A line: side of a tile, least and most tiles, width and height of the picture, number of tiles with the one of the
whole, and the FNV-1a hash of their pixels before they are normalised (row, column, RGB); 0 where only the number is
compared.
"""

import numpy
from PIL import Image
from test_pattern import fnv1a, test_pattern

try:
    from transformers import GotOcr2ImageProcessorPil as Processor
except ImportError:  # before transformers 5
    from transformers import GotOcr2ImageProcessor as Processor

SIDES = [2, 14, 55, 56, 57, 100, 223, 224, 225, 447, 448, 449, 633, 634, 635, 640, 777, 896, 1000, 1097, 1098, 1344,
         1920, 2688, 4000]
BOUNDS = [(1, 12), (1, 6), (4, 12), (1, 1), (3, 2), (1, 40)]
SMALL = [(10 + i * 37 % 233, 8 + i * 61 % 251) for i in range(120)]
# Pictures with two canvases as near, of which their pixels choose; and a side longer than most.
TIES = [(28, 28), (30, 30), (39, 39), (40, 40), (41, 41), (79, 79), (80, 80), (28, 56), (40, 80), (56, 112), (57, 114),
        (200, 100), (90, 60), (60, 90), (1000, 7), (7, 1000), (35, 28), (70, 40), (50, 40)]


def show(side, bounds, width, height, hashed):
    processor = Processor(size={"height": side, "width": side}, min_patches=bounds[0], max_patches=bounds[1],
                          crop_to_patches=True, do_rescale=False, do_normalize=False)
    tiles, value = processor.get_number_of_image_patches(height, width, {}), 0
    if hashed:
        pixels = processor(Image.fromarray(test_pattern(width, height)), return_tensors="np")["pixel_values"]
        assert len(pixels) == tiles
        value = fnv1a(numpy.ascontiguousarray(pixels.transpose(0, 2, 3, 1)).astype(numpy.uint8).tobytes())
    print(side, *bounds, width, height, tiles, f"{value:016x}")


if __name__ == "__main__":
    for limits in BOUNDS:
        for w in SIDES:
            for h in SIDES:
                show(448, limits, w, h, False)
        for size in TIES + SMALL[::3]:
            show(28, limits, *size, True)
    for size in SMALL:
        show(28, BOUNDS[0], *size, True)
    for size in ((640, 480), (333, 517), (300, 1300)):
        show(448, BOUNDS[0], *size, True)
