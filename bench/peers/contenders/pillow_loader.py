"""torch's DataLoader around Pillow, as most training scripts have it. `draft` lets libjpeg scale while it decodes."""

import numpy
import torch
from PIL import Image
from works import MEAN, SIDE, STD

from contenders import torch_files
from contenders.geometry import native_size, patches
from contenders.settings import SETTINGS

SET = SETTINGS["pillow_loader"]
FILTER = Image.Resampling[SET["resample"]]



def pixels(path, size_of, resample, draft=False):
    """uint8 [height, width, 3]."""
    with Image.open(path) as image:
        if draft:
            image.draft("RGB", (SET["draft"], SET["draft"]))
        return numpy.array(image.convert("RGB").resize(size_of(*image.size), resample))


class Square:
    def __init__(self, draft):
        self.draft = draft

    def __call__(self, path):
        picture = torch.from_numpy(pixels(path, lambda width, height: (SIDE, SIDE), FILTER, self.draft))
        values = picture.permute(2, 0, 1).to(torch.float32, memory_format=torch.contiguous_format)
        return values.sub_(255 * MEAN).div_(255 * STD)


def native(path):
    return patches(torch.from_numpy(pixels(path, native_size, Image.BILINEAR)).permute(2, 0, 1))


def batches(work, data, variant, ordered):
    if work.output == "native":
        return torch_files.loader(data.all_files, native, work, SET, torch.cat)
    return torch_files.loader(data.all_files, Square(variant == "draft"), work, SET)
