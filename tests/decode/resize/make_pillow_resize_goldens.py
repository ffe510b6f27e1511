#!/usr/bin/env python3
"""Prints the cases of pillow_resize_test.cc with the hashes of what Pillow makes of them.

    pip install numpy pillow==13.0.0
    PYTHONPATH=.. python3 make_pillow_resize_goldens.py > pillow_resize_goldens.txt
    pip install pillow==11.3.0
    PYTHONPATH=.. python3 make_pillow_resize_goldens.py >> pillow_resize_goldens.txt

A line: order of the passes (12 or 13), width, height, new width, new height, filter, FNV-1a hash of
the packed RGB. Since Pillow 13 the height is sometimes resized first.
"""

import PIL
from PIL import Image
from test_pattern import fnv1a, test_pattern

ORDER = 13 if int(PIL.__version__.split(".")[0]) >= 13 else 12
FILTERS = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}

ALL_FILTERS = [
    (1, 1, 1, 1), (1, 1, 28, 28), (1, 1, 5, 1), (2, 2, 1, 1), (2, 1, 1, 2), (3, 5, 2, 7),
    (5, 3, 7, 2), (1, 2000, 28, 28), (2000, 1, 28, 28), (28, 28, 2000, 1), (7, 900, 11, 100),
    (64, 48, 32, 24), (64, 48, 128, 96), (101, 103, 53, 59), (53, 59, 101, 103),
    (97, 89, 97, 41), (97, 89, 41, 89), (97, 89, 97, 89), (31, 200, 31, 400),
    (200, 31, 400, 31), (57, 91, 56, 84), (91, 57, 84, 56), (300, 300, 280, 252),
    (300, 300, 280, 260), (11, 13, 10, 11), (10, 12, 11, 13), (640, 480, 644, 476),
    (333, 517, 308, 504), (1001, 37, 29, 36),
]
BICUBIC = [
    (1, 1, 1, 1000), (16, 1, 8, 1), (1, 16, 1, 8), (10, 20, 11, 19), (6, 5, 5, 4), (5, 6, 4, 4),
    (4, 4, 3, 3), (255, 257, 254, 256), (224, 168, 224, 168), (448, 336, 224, 168),
    (127, 255, 28, 56), (1280, 720, 1260, 728), (720, 1280, 728, 1260), (1080, 1920, 560, 1008),
    (1920, 1440, 1036, 784), (512, 2048, 308, 1232), (3, 3000, 2, 300), (3000, 3, 300, 2),
]
LARGE = [(8000, 6000, 1036, 784)]


def show(sizes, names):
    width, height, to_width, to_height = sizes
    picture = Image.fromarray(test_pattern(width, height))
    for name in names:
        small = picture.resize((to_width, to_height), FILTERS[name])
        print(ORDER, *sizes, name, f"{fnv1a(small.tobytes()):016x}")


if __name__ == "__main__":
    for case in ALL_FILTERS:
        show(case, FILTERS)
    for case in BICUBIC + (LARGE if ORDER == 13 else []):
        show(case, ["bicubic"])
