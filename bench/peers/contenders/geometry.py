"""Sizes and patches of the recipe native28, and which frames a clip gives: the same for all contenders."""

import math

from works import FRAMES

MOST_PATCHES = {"image": 4096, "frame": 1024}


def native_size(width, height, kind="image"):
    """Width and height in pixels, multiples of 28."""
    most = MOST_PATCHES[kind] // 4
    across, down = (max(1, (side + 14) // 28) for side in (width, height))
    if across * down > most:
        across, down = (min(max(math.isqrt(most * width // height), 1), across, most),
                        min(max(math.isqrt(most * height // width), 1), down, most))
    return 28 * across, 28 * down


def patches(pixels):
    """uint8 [patches, 588] of a picture [3, height, width]: groups of 2x2 patches of 14x14, channels last."""
    _, height, width = pixels.shape
    cut = pixels.reshape(3, height // 28, 2, 14, width // 28, 2, 14)
    return cut.permute(1, 4, 2, 5, 3, 6, 0).reshape(-1, 588)


def frame_numbers(total):
    """Returns the frames that transformers samples for `num_frames`."""
    return [int(i * total / FRAMES) for i in range(FRAMES)]
