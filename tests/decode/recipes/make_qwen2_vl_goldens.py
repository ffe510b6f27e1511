#!/usr/bin/env python3
"""Prints the cases of qwen2_vl_test.cc with what transformers' image processor makes of them.

    pip install numpy "pillow<12.2" torch torchvision transformers
    PYTHONPATH=.. python3 make_qwen2_vl_goldens.py > qwen2_vl_goldens.txt

A line: least and most pixels, width, height, rows and columns of patches, and the FNV-1a hash of the patches' bytes
before they are normalised, in Isocost's order (row, column, RGB); 0 where only the grid is compared.
"""

import numpy
from PIL import Image
from test_pattern import fnv1a, test_pattern
from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

try:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as Processor
except ImportError:  # before transformers 5
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor as Processor

BOUNDS = [(3136, 12845056), (3136, 1003520), (200704, 1003520), (784, 784)]
SIDES = [1, 13, 14, 15, 27, 28, 29, 41, 42, 43, 56, 70, 98, 99, 113, 126, 154, 200, 201, 224, 300, 333, 500, 640, 1001,
         1024, 1920, 2000, 4000, 6000, 8000]
IMAGES = [(28, 28), (1, 200), (14, 14), (57, 91), (91, 57), (640, 480), (480, 640), (333, 517), (500, 334),
          (1280, 720), (3, 600), (600, 3), (56, 56), (700, 1120), (1500, 1200)]


def show(bounds, width, height, hashed):
    least, most = bounds
    rows, columns = (side // 14 for side in smart_resize(height, width, 28, least, most))
    value = 0
    if hashed:
        picture = Image.fromarray(test_pattern(width, height))
        made = Processor(size={"shortest_edge": least, "longest_edge": most}, do_rescale=False, do_normalize=False)(
            picture, return_tensors="np")
        assert made["image_grid_thw"].tolist() == [[1, rows, columns]]
        patches = made["pixel_values"].reshape(-1, 3, 2, 14, 14)
        assert (patches[:, :, 0] == patches[:, :, 1]).all()
        value = fnv1a(numpy.ascontiguousarray(patches[:, :, 0].transpose(0, 2, 3, 1)).astype(numpy.uint8).tobytes())
    print(least, most, width, height, rows, columns, f"{value:016x}")


if __name__ == "__main__":
    for limits in BOUNDS:
        for w in SIDES:
            for h in SIDES:
                if max(w, h) <= 200 * min(w, h):
                    show(limits, w, h, False)
    for size in IMAGES:
        show(BOUNDS[1], *size, True)
    for size in ((640, 480), (57, 91)):
        show(BOUNDS[2], *size, True)
