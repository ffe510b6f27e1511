"""torch's DataLoader around torchvision: decode_image and transforms.v2 on uint8 tensors."""

import torch
from torchvision.io import ImageReadMode, decode_image, read_file
from torchvision.transforms import InterpolationMode, v2
from works import MEAN, SIDE, STD

from contenders import torch_files
from contenders.geometry import native_size, patches
from contenders.settings import SETTINGS

SET = SETTINGS["torchvision_loader"]


TO_SQUARE = v2.Compose([v2.Resize((SIDE, SIDE), interpolation=InterpolationMode[SET["resize"]],
                                  antialias=SET["antialias"]),
                        v2.ToDtype(torch.float32, scale=True), v2.Normalize([MEAN] * 3, [STD] * 3, inplace=True)])


def decode(encoded):
    return decode_image(encoded, ImageReadMode.RGB)


def square(path):
    return TO_SQUARE(decode(read_file(path)))


def to_native(pixels, kind="image"):
    """The patches of a picture uint8 [3, height, width]."""
    width, height = native_size(pixels.shape[2], pixels.shape[1], kind)
    return patches(v2.functional.resize(pixels, [height, width], InterpolationMode.BILINEAR, antialias=True))


def native(path):
    return to_native(decode(read_file(path)))


def batches(work, data, variant, ordered):
    if work.output == "native":
        return torch_files.loader(data.all_files, native, work, SET, torch.cat)
    return torch_files.loader(data.all_files, square, work, SET)
