#!/usr/bin/env python3
"""Prints the cases of llava_test.cc with what transformers' image processors make of them.

    pip install numpy "pillow<12.2" torch torchvision transformers
    PYTHONPATH=.. python3 make_llava_goldens.py > llava_goldens.txt

A line: the length of the shortest edge, or 0 and the fixed width and height; width and height of the crop, or zeros;
width and height of the picture; and the FNV-1a hash of the processor's pixels before they are normalised (row, column,
RGB).
"""

import numpy
from PIL import Image
from test_pattern import fnv1a, test_pattern

try:
    from transformers import CLIPImageProcessorPil as Clip
    from transformers import SiglipImageProcessorPil as Siglip
except ImportError:  # before transformers 5
    from transformers import CLIPImageProcessor as Clip
    from transformers import SiglipImageProcessor as Siglip

# An edge or a size, and the crop: LLaVA-1.5, LLaVA-Interleave, crops that are odd, wider and longer than the picture.
SETTINGS = [(336, None, (336, 336)), (0, (384, 384), None), (224, None, (224, 224)), (91, None, (84, 84)),
            (90, None, (112, 112)), (0, (100, 60), (84, 84)), (0, (61, 97), (84, 84)), (0, (70, 70), (70, 70))]
# Not 1 or 3 pixels tall: transformers before 5 takes rows of such for channels.
SIZES = [(336, 336), (2, 200), (200, 2), (14, 14), (57, 91), (91, 57), (640, 480), (480, 640), (333, 517), (500, 334),
         (1280, 720), (337, 336), (336, 337), (335, 1005), (1000, 77)]
MORE = [(width, height) for width in (31, 84, 85, 111, 127, 233) for height in (29, 84, 86, 113, 128, 401)]


def show(edge, fixed, crop, width, height):
    size = {"shortest_edge": edge} if edge else {"width": fixed[0], "height": fixed[1]}
    cropping = {"do_center_crop": True, "crop_size": {"width": crop[0], "height": crop[1]}} if crop else {}
    processor = (Clip if crop else Siglip)(size=size, do_rescale=False, do_normalize=False, **cropping)
    (pixels,) = processor(Image.fromarray(test_pattern(width, height)), return_tensors="np")["pixel_values"]
    value = fnv1a(numpy.ascontiguousarray(pixels.transpose(1, 2, 0)).astype(numpy.uint8).tobytes())
    print(edge, *(fixed or (0, 0)), *(crop or (0, 0)), width, height, f"{value:016x}")


if __name__ == "__main__":
    for number, settings in enumerate(SETTINGS):
        for picture in SIZES if number < 3 else SIZES[1:9] + MORE:
            show(*settings, *picture)
