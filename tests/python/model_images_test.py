"""Pictures of extreme shapes and of every colour type through the recipes of models, compared with transformers'
processors over Pillow: token by token, and pixels bit by bit."""

import functools
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
from model_test import whatever_the_loss
from support import main

NEEDED = ("transformers", "tokenizers", "jinja2", "PIL", "torchvision")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if not MISSING:
    import numpy
    import PIL
    import torch
    from PIL import Image, ImageOps

    import model_directories
    from model_test import ORACLES, sample_rows

    ORDER = "pillow-13" if int(PIL.__version__.split(".")[0]) >= 13 else "width-first"

EXTREME = [(10, 2000), (2000, 10), (28, 28), (27, 29), (1, 200), (200, 1), (2, 2), (1, 1), (3, 500), (500, 3),
           (4096, 30), (30, 4096)]
HUGE = (8000, 6000)


# Pictures that each family sees, and its bounds if they would be large.
QWEN3 = {"size": {"shortest_edge": 64 * 64, "longest_edge": 32 * 32 * 1000}}
FAMILIES = {
    "qwen2_vl": (1000, {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 1280, "size": None}),
    "qwen3_vl": (260, QWEN3),
    "qwen3_vl_moe": (1000, QWEN3),
    "qwen3_5": (1000, QWEN3),
    "qwen3_5_moe": (1000, QWEN3),
    "llava": (260, {}),
    "llava_siglip": (260, {}),
    "llava_onevision": (260, {}),
    "internvl": (260, {}),
}


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
    """Returns the picture like qwen-vl-utils opens it: turned, and on white."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.split()[3])
        return white
    return image.convert("RGB")


def within_aspect(width, height):
    """Sides that differ at most 200 times: Qwen's processor refuses others."""
    return max(width, -(-height // 200)), max(height, -(-width // 200))


class LazilyDisplayed(dict):
    """Samples whose pictures are decoded when somebody asks for one."""

    def __getitem__(self, key):
        messages, files = super().__getitem__(key)
        return messages, [displayed(data) for data in files]


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: ./run test --torch2 has all")
class ModelImages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="isocost-images-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory)

    @classmethod
    @functools.lru_cache(maxsize=None)
    def write(cls, count):
        """Shards of so many pictures; returns their directory and {key: (messages, [file])}."""
        shards = cls.directory / str(count)
        shards.mkdir()
        generator = random.Random(5)
        samples, kinds = {}, list(KINDS.items())
        with tarfile.open(shards / "0.tar", "w") as out:
            for i in range(count):
                kind, make = kinds[i % len(kinds)]
                size = generator.randint(1, 400), generator.randint(1, 400)
                if i % 9 == 0:  # steps through the kinds, too, which are not as many
                    size = HUGE if i == 81 else EXTREME[i // 9 % len(EXTREME)]
                messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": f"What is {i}?"}]},
                            {"role": "assistant", "content": [{"type": "text", "text": "A picture."}]}]
                name, ending = kind.split(".")
                members = {ending: make(*within_aspect(*size), i), "json": json.dumps({"messages": messages}).encode()}
                samples[f"0.tar/{i}_{name}"] = (messages, [members[ending]])
                for part, data in members.items():
                    entry = tarfile.TarInfo(f"{i}_{name}.{part}")
                    entry.size = len(data)
                    out.addfile(entry, io.BytesIO(data))
        return shards, samples

    def oracle(self, family, samples):
        bounds = FAMILIES[family][1]
        model = model_directories.make(self.directory / family, family, model=True)
        file = model / "preprocessor_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **bounds}))
        return model, ORACLES[family](model, samples)

    @whatever_the_loss
    def check(self, family):
        if family not in ORACLES:
            self.skipTest("this transformers does not know the type")
        shards, samples = self.write(FAMILIES[family][0])
        model, oracle = self.oracle(family, LazilyDisplayed(samples))
        seen = []
        with isocost.DataLoader(shards, model=model, global_batch_size=40, microbatches=10, epochs=1,
                                node=isocost.NodeOptions(resize_order=ORDER)) as loader:
            for microbatch in loader:
                self.compare(microbatch, oracle)
                seen += microbatch.sample_keys
        self.assertEqual(sorted(seen), sorted(samples))

    def compare(self, microbatch, oracle):
        """Tokens of each sample, and all that the image processor makes."""
        first, others = 0, {}
        for key, (ids, labels, _positions) in zip(microbatch.sample_keys, sample_rows(microbatch)):
            wanted = oracle.sample(key)
            self.assertEqual(ids.tolist(), wanted["input_ids"][0].tolist(), key)
            self.assertEqual(labels.tolist(), wanted["labels"][0].tolist(), key)
            rows = slice(first, first + len(wanted["pixel_values"]))
            self.assertTrue(torch.equal(microbatch["pixel_values"][rows], wanted["pixel_values"]), key)
            first = rows.stop
            for name in wanted.keys() - {"input_ids", "labels", "pixel_values"}:
                others.setdefault(name, []).append(wanted[name])
        self.assertEqual(first, len(microbatch["pixel_values"]))
        for name, tensors in others.items():
            self.assertEqual(microbatch[name].tolist(), torch.cat(tensors).tolist(), name)

    def test_qwen2_vl(self):
        self.check("qwen2_vl")

    def test_qwen3_vl(self):
        self.check("qwen3_vl")

    def test_qwen3_vl_moe(self):
        self.check("qwen3_vl_moe")

    def test_qwen3_5(self):
        self.check("qwen3_5")

    def test_qwen3_5_moe(self):
        self.check("qwen3_5_moe")

    def test_llava(self):
        self.check("llava")

    def test_llava_siglip(self):
        self.check("llava_siglip")

    def test_llava_onevision(self):
        self.check("llava_onevision")

    def test_internvl(self):
        self.check("internvl")


if __name__ == "__main__":
    main()
