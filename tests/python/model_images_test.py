"""Pictures of extreme shapes and of every colour type through a model's recipe, compared with transformers' processor
over Pillow, bit by bit."""

import importlib.util
import io
import json
import pathlib
import random
import shutil
import tarfile
import tempfile
import unittest

import isocost
from support import main

NEEDED = ("transformers", "tokenizers", "jinja2", "PIL", "torchvision")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import numpy
    import PIL
    import torch
    from PIL import Image, ImageOps

    import model_directories
    from model_test import Oracle

    ORDER = "pillow-13" if int(PIL.__version__.split(".")[0]) >= 13 else "width-first"

EXTREME = [(10, 2000), (2000, 10), (28, 28), (27, 29), (1, 200), (200, 1), (2, 2), (8000, 6000), (1, 1), (3, 500),
           (500, 3), (4096, 30)]
PICTURES = 1000


def noise(width, height, channels, seed):
    """Coarse noise: a photograph's edges and surfaces, and cheap to make."""
    generator = numpy.random.default_rng(seed)
    coarse = generator.integers(0, 256, (height // 7 + 2, width // 7 + 2, channels), dtype=numpy.uint8)
    planes = [Image.fromarray(coarse[..., c]).resize((width, height), Image.Resampling.BICUBIC)
              for c in range(channels)]
    return planes[0] if channels == 1 else Image.merge({2: "LA", 3: "RGB", 4: "RGBA"}[channels], planes)


def saved(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def with_transparent_colour(image, seed):
    reduced = image.convert("P", palette=Image.Palette.ADAPTIVE, colors=2 + seed % 255)
    reduced.info["transparency"] = seed % 2
    return reduced


# Colour types, by the ending of their files: how an image of the given size becomes one.
KINDS = {
    "grey.jpg": lambda w, h, i: saved(noise(w, h, 1, i), "JPEG", quality=90),
    "rgb.jpg": lambda w, h, i: saved(noise(w, h, 3, i), "JPEG", quality=60 + i % 40, subsampling=i % 3),
    "progressive.jpg": lambda w, h, i: saved(noise(w, h, 3, i), "JPEG", progressive=True),
    "turned.jpg": lambda w, h, i: saved(noise(w, h, 3, i), "JPEG", exif=turned(1 + i % 8)),
    "bits.png": lambda w, h, i: saved(noise(w, h, 1, i).convert("1"), "PNG"),
    "grey.png": lambda w, h, i: saved(noise(w, h, 1, i), "PNG"),
    "grey_alpha.png": lambda w, h, i: saved(noise(w, h, 2, i), "PNG"),
    "palette.png": lambda w, h, i: saved(noise(w, h, 3, i).convert("P", palette=Image.Palette.ADAPTIVE,
                                                                   colors=2 + i % 255), "PNG"),
    "palette_alpha.png": lambda w, h, i: saved(with_transparent_colour(noise(w, h, 3, i), i), "PNG"),
    "rgb.png": lambda w, h, i: saved(noise(w, h, 3, i), "PNG"),
    "rgba.png": lambda w, h, i: saved(noise(w, h, 4, i), "PNG"),
    "turned.png": lambda w, h, i: saved(noise(w, h, 3, i), "PNG", exif=turned(1 + i % 8)),
    "rgb.webp": lambda w, h, i: saved(noise(w, h, 3, i), "WEBP", lossless=bool(i % 2)),
    "rgba.webp": lambda w, h, i: saved(noise(w, h, 4, i), "WEBP", lossless=True),
    "palette.gif": lambda w, h, i: saved(noise(w, h, 3, i).convert("P", palette=Image.Palette.ADAPTIVE), "GIF"),
    "rgb.bmp": lambda w, h, i: saved(noise(w, h, 3, i), "BMP"),
}


def displayed(data):
    """As qwen-vl-utils opens it: turned, and on white."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.split()[3])
        return white
    return image.convert("RGB")


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class ModelImages(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-images-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def write(self):
        """A shard of pictures; returns {key: what is displayed}."""
        generator = random.Random(5)
        pictures, kinds = {}, list(KINDS.items())
        with tarfile.open(self.directory / "0.tar", "w") as shard:
            for i in range(PICTURES):
                kind, make = kinds[i % len(kinds)]
                width, height = generator.randint(1, 400), generator.randint(1, 400)
                if i % 20 == 0:  # steps through the kinds, too, which are not as many
                    width, height = EXTREME[i // 20 % len(EXTREME)]
                if max(width, height) > 200 * min(width, height):  # the processor refuses these
                    width, height = max(width, height // 200 + 1), max(height, width // 200 + 1)
                name, ending = kind.split(".")
                members = {ending: make(width, height, i), "txt": b"A picture."}
                pictures[f"0.tar/{i}_{name}"] = members[ending]
                for part, data in members.items():
                    entry = tarfile.TarInfo(f"{i}_{name}.{part}")
                    entry.size = len(data)
                    shard.addfile(entry, io.BytesIO(data))
        return pictures

    def test_pixels_are_those_of_the_processor(self):
        pictures = self.write()
        model = model_directories.make(self.directory / "model", "qwen2_vl")
        settings = json.loads((model / "preprocessor_config.json").read_text())
        bounds = {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 1280}
        (model / "preprocessor_config.json").write_text(json.dumps({**settings, **bounds, "size": None}))
        oracle = Oracle.image_processor(None, model)
        compared = 0
        with isocost.DataLoader(self.directory, model=model, global_batch_size=50, microbatches=10,
                                epochs=1, node=isocost.NodeOptions(resize_order=ORDER)) as loader:
            for microbatch in loader:
                grids, values = microbatch["image_grid_thw"].tolist(), microbatch["pixel_values"]
                first = 0
                for key, grid in zip(microbatch.sample_keys, grids):
                    rows = slice(first, first := first + grid[1] * grid[2])
                    wanted = oracle([displayed(pictures[key])], return_tensors="pt")
                    self.assertEqual(wanted["image_grid_thw"].tolist(), [grid], key)
                    self.assertTrue(torch.equal(wanted["pixel_values"], values[rows]), key)
                    compared += 1
        self.assertEqual(compared, PICTURES)


if __name__ == "__main__":
    main()
