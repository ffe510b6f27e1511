#!/usr/bin/env python3
"""Makes the data sets of this folder with the packages that people write them with, and beside them what these packages
read from them.

    pip install megatron-energon mosaicml-streaming webdataset braceexpand pillow && python3 make.py

Made with megatron-energon 7.4.1, mosaicml-streaming 0.13.0, webdataset 1.0.2 and braceexpand 0.1.7.

mds_NAME/       data sets that MDSWriter writes; mds_NAME.json has the samples as MDSReader reads them
energon_NAME/   data sets that `energon prepare` prepares, without its SQLite index, which Isocost does not read;
                energon_NAME.json has the samples of the split "train" as Energon reads them, in its order
braces.json     patterns, and the words that braceexpand makes of them; null where it refuses one
"""

import base64
import dataclasses
import decimal
import io
import itertools
import json
import logging
import pathlib
import shutil

import braceexpand
import numpy as np
import PIL.Image
import streaming
import torch
import webdataset
import yaml
from megatron.energon import WorkerConfig, get_loader, get_val_dataset
from megatron.energon.epathlib import EPath
from megatron.energon.flavors.webdataset import BaseWebdatasetFactory
from megatron.energon.task_encoder import DefaultTaskEncoder
from streaming.base.format import reader_from_json

FOLDER = pathlib.Path(__file__).parent


def picture(number, form):
    image = PIL.Image.new("RGB", (8 + number, 6))
    image.putdata([(30 * x % 256, 40 * y % 256, 50 * number % 256) for y in range(6) for x in range(8 + number)])
    data = io.BytesIO()
    image.save(data, form)
    return data.getvalue()


def plain(value):
    """A value in JSON."""
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, PIL.Image.Image):
        return {"bytes": base64.b64encode(value.fp.getvalue()).decode()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    if isinstance(value, torch.Tensor):
        return {"size": [value.shape[-1], value.shape[-2]]}
    return value


def write_mds(name, columns, samples, **options):
    folder = FOLDER / f"mds_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    with streaming.MDSWriter(out=str(folder), columns=columns, **options) as writer:
        for sample in samples:
            writer.write(sample)
    index = json.loads((folder / "index.json").read_text())
    read = []
    for shard in index["shards"]:
        zipped = shard["zip_data"]
        if zipped:
            raw = streaming.base.compression.decompress(shard["compression"],
                                                        (folder / zipped["basename"]).read_bytes())
            (folder / shard["raw_data"]["basename"]).write_bytes(raw)
        reader = reader_from_json(str(folder), None, shard)
        for number in range(reader.samples):
            data = reader.get_sample_data(number)
            sample = {key: plain(value) for key, value in reader.decode_sample(data).items()}
            read.append({"shard": shard["raw_data"]["basename"], "number": number, "sample": sample})
        if zipped:
            (folder / shard["raw_data"]["basename"]).unlink()
    (FOLDER / f"mds_{name}.json").write_text(json.dumps(read, indent=1) + "\n")


def make_mds():
    every = {"image": "bytes", "photo": "jpeg", "drawing": "png", "text": "str", "txt": "str", "meta": "json",
             "count": "int", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
             "u16": "uint16", "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64",
             "long": "str_int", "float": "str_float", "price": "str_decimal"}
    samples = [{"image": picture(i, ("JPEG", "PNG", "WEBP")[i % 3]), "photo": picture(i, "JPEG"),
                "drawing": picture(i, "PNG"), "text": ("", "größe \"q\"\n", "a")[i % 3], "txt": f"caption {i}",
                "meta": ({"a": [1, {"b": None}]}, [1.5, "x"], "s")[i % 3], "count": -i, "i8": -128 + i,
                "i16": -32768 + i, "i32": -2**31 + i, "i64": -2**63 + i, "u8": 255 - i, "u16": 65535 - i,
                "u32": 2**32 - 1 - i, "u64": 2**64 - 1 - i, "f16": (0.1, 65504.0, 6e-8, float("inf"))[i % 4],
                "f32": (0.1, -3.4e38, 1e-40, float("nan"))[i % 4], "f64": (0.1, 1e300, -0.0, float("-inf"))[i % 4],
                "long": 10**30 + i, "float": (1e22, -0.5, 3.0)[i % 3], "price": decimal.Decimal("12.3400") + i}
               for i in range(5)]
    write_mds("every", every, samples, size_limit=3200,
              hashes=sorted(["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "xxh32", "xxh64", "xxh128",
                             "xxh3_64", "xxh3_128"]))
    columns = {"jpg": "bytes", "json": "json", "id": "int"}
    samples = [{"jpg": picture(i, "JPEG"), "json": ({"text": f"caption {i}"}, {})[i % 2], "id": i} for i in range(4)]
    write_mds("zstd", columns, samples, compression="zstd:7", hashes=["sha1", "xxh64"], size_limit=1800)
    write_mds("gz", columns, samples, compression="gz", hashes=["sha1"])
    write_mds("texts", {"text": "str"}, [{"text": ""}, {"text": "one"}, {"text": "zwei ✓"}])
    write_mds("empty", {"text": "str"}, [])


class AsTheyAre(DefaultTaskEncoder):
    def encode_sample(self, sample):
        return sample


def write_energon(name, shards, dataset, split, exclude=()):
    folder = FOLDER / f"energon_{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for shard, samples in shards.items():
        (folder / shard).parent.mkdir(exist_ok=True)
        with webdataset.TarWriter(str(folder / shard), encoder=False, mtime=0) as writer:
            for sample in samples:
                writer.write(sample)
    BaseWebdatasetFactory.prepare_dataset(EPath(folder), list(shards), split_parts_patterns=split, workers=1)
    meta = folder / ".nv-meta"
    (meta / "dataset.yaml").write_text(yaml.dump(dataset, sort_keys=False))
    if exclude:
        splits = yaml.safe_load((meta / "split.yaml").read_text())
        (meta / "split.yaml").write_text(yaml.dump({**splits, "exclude": list(exclude)}, sort_keys=False))
    worker = WorkerConfig(rank=0, world_size=1, num_workers=0)
    loader = get_loader(get_val_dataset(folder, split_part="train", worker_config=worker, batch_size=None,
                                        task_encoder=AsTheyAre()))
    read = []
    for sample in loader:
        sample = {field.name: getattr(sample, field.name) for field in dataclasses.fields(sample)}
        read.append({key: plain(value) for key, value in sample.items()
                     if not key.startswith("__") or key == "__key__"})
    (FOLDER / f"energon_{name}.json").write_text(json.dumps(read, indent=1) + "\n")
    for left in itertools.chain(meta.glob("index.*"), folder.rglob("*.idx")):
        left.unlink()


def shards_of(count, samples, parts):
    numbers = itertools.count()
    return {f"shard_{i}.tar": [{"__key__": f"{number:03}", **parts(number)}
                               for number in itertools.islice(numbers, samples)] for i in range(count)}


def field_map(sample, **fields):
    return {"sample_type": {"__module__": "megatron.energon", "__class__": sample}, "field_map": fields}


def make_energon():
    split = [("train", "shard_[0-2].*"), ("val", "shard_3.*")]

    def caption(i):
        words = json.dumps({"captions": [{"en": f"caption {i}"}, {"en": "other"}]})
        return {("jpg", "png")[i % 2]: picture(i, ("JPEG", "PNG")[i % 2]), "json": words.encode()}

    write_energon("captions", shards_of(4, 3, caption),
                  field_map("CaptioningSample", image="jpg,png", caption="json[captions][0][en]"), split,
                  exclude=["shard_{1..1}.tar", "shard_2.tar/007"])

    def question(i):
        answers = json.dumps({"answers": [f"answer {i}", "another"]})
        return {"jpg": picture(i, "JPEG"), "question.txt": f"question {i}?".encode(), "json": answers.encode()}

    write_energon("vqa", shards_of(2, 2, question),
                  field_map("VQASample", image="jpg", context="question.txt", answers="json[answers]"), split)
    write_energon("texts", shards_of(1, 3, lambda i: {"txt": f"text {i}".encode(), "note.txt": b"not read"}),
                  field_map("TextSample", text="txt"), split)


PATTERNS = [
    "a.tar", "{a,b}", "a{b,c}d", "{1..3}", "{001..003}", "{1..03}", "{3..1}", "{-2..2}", "{-02..2}", "{0..9..3}",
    "{9..0..3}", "{1..5..-2}", "{01..10..4}", "{a..e}", "{e..a}", "{a..z..5}", "{A..C}", "{Y..b}", "{a..3}",
    "{a,b}{1..2}", "{a,{b,c}}", "{a,b{1..3}}x", "{}", "{a}", "a{b}c", "{a,}", "{,a}", "{,}", "x{a,b,}y",
    "\\{a,b\\}", "{a\\,b,c}", "a\\b", "{1..2}{3..4}", "{00..03}.tar", "shard-{000000..000012}.tar", "{1...3}",
    "{1..}", "{..1}", "{a..}", "{aa..b}", "{a,b", "a,b}", "{a{b,c}", "}{", "{{a,b}", "{a,b}}", "{1..2..0}",
    "{ a, b }", "{1,2..4}", "{{1..3}}", "{{a},b}", "a::b", "${a,b}", "{x,y}/{1..2}/z", "{0..0}", "{10..8}",
    "{008..10}", "{-1..-3}", "",
]


def make_braces():
    found = {}
    for pattern in PATTERNS:
        try:
            found[pattern] = list(braceexpand.braceexpand(pattern))
        except (ValueError, braceexpand.UnbalancedBracesError):
            found[pattern] = None
    (FOLDER / "braces.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    logging.disable()
    make_mds()
    make_energon()
    make_braces()
