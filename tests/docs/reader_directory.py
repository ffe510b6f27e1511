"""The directory of somebody who reads the documentation: media, shards, models and results, under the names that the
pages use."""

import csv
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/python"))

from support import png, write_tone  # noqa: E402

SAMPLES = 64
MODELS = ("Qwen2-VL-2B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct", "Qwen2.5-VL-7B-Instruct",
          "path/to/Qwen2.5-VL-7B-Instruct")
LAYOUT = {"version": 1, "encoder_place": "own", "encoder": {"tensor": 1, "pipeline": 1, "data": 2},
          "llm": {"tensor": 1, "pipeline": 2, "data": 2}, "microbatches": 4, "chunks": 1, "schedule": "1f1b"}
WEIGHTS = {"per_microbatch": 0.001, "per_sequence": 0.0001, "per_unit": 1e-6, "per_unit_squared": 1e-10}


def write_json(file, document):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document))


def write_pictures(directory):
    """Pictures by all the names that pages and examples have for some."""
    jpeg = ROOT / "tests/decode/golden/444.jpg"
    for name in ("photos/a.jpg", "photos/b.jpg", "images/a.jpg", "images/b.jpg", "imagenet/train/cat/1.jpg",
                 "imagenet/train/dog/1.jpg", "a.jpg", "b.jpg", "cat/1.jpg"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(jpeg, directory / name)


def write_records(directory):
    """Files of records: captions, conversations, questions with answers, a manifest."""
    captions = [{"file_name": f"{name}.jpg", "text": f"Picture {name}."} for name in "ab"]
    (directory / "photos/metadata.jsonl").write_text("".join(json.dumps(line) + "\n" for line in captions))
    talks = [{"id": f"{i:06}" if i else "cat/0042", "image": f"{'ab'[i % 2]}.jpg",
              "conversations": [{"from": "human", "value": "<image>\nWhat is it?"},
                                {"from": "gpt", "value": "A picture. " * (1 + i % 7)}]} for i in range(SAMPLES)]
    for name in ("llava.json", "llava_v1_5_mix665k.json"):
        write_json(directory / name, talks)
    question = {"instruction": "Translate into German.", "input": "A cat.", "output": "Eine Katze."}
    (directory / "alpaca.jsonl.gz").write_bytes(gzip.compress(json.dumps(question).encode()))
    manifest = {"key": "cats/0001", "parts": [{"name": "jpg", "file": "photos/a.jpg"},
                                              {"name": "caption.txt", "text": "A cat on a wall."}]}
    (directory / "manifest.jsonl").write_text(json.dumps(manifest) + "\n")


def write_samples(directory):
    """The files of the shards: texts, pictures with captions, sounds with text."""
    (directory / "cat").mkdir(parents=True)
    (directory / "cat/0042.png").write_bytes(png(224, 168, 42))
    (directory / "cat/0042.txt").write_text("A cat.")
    for i in range(1, SAMPLES):
        stem = directory / f"{i:06}"
        stem.with_suffix(".txt").write_text(f"sample {i} " + "word " * (i * 7 % 60))
        if i % 3 == 1:
            stem.with_suffix(".png").write_bytes(png(28 + 5 * i, 28 + i * 5 % 160, i))
        if i % 3 == 2:
            write_tone(stem.with_suffix(".wav"), 0.2 + i % 4 / 10)


def write_costs(file):
    with open(file, "w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(("encoder", "llm", "other", "bytes"))
        rows.writerows((i * 7 % 13, 1 + i * i % 31, 1, 1000 * (1 + i % 9)) for i in range(512))


def make(directory, prefix, build):
    """Fills an empty directory, with the program that is installed below `prefix`. The shards are text, pictures and
    sounds, for the recipe native28."""
    directory.mkdir(parents=True)
    write_pictures(directory)
    write_records(directory)
    write_samples(directory / "files")
    run(prefix, "make-shards", directory / "files", directory / "data/shards", "--samples-per-shard", 24)
    write_costs(directory / "costs.csv")
    for trace in (ROOT / "bench/quality/data").glob("*.csv"):
        shutil.copy(trace, directory)
    write_json(directory / "layout.json", LAYOUT)
    for name in ("profile.json", "P.json"):
        shutil.copy(ROOT / "tests/compatibility/0.1/model_profile.json", directory / name)
    profile = run(prefix, "data", "profile", directory / "data/shards", "--json")
    for name in ("data.json", "D.json"):
        (directory / name).write_text(profile)
    run(prefix, "keygen", directory / "node")
    (directory / "mixture.toml").write_text(
        '[[source]]\nname = "captions"\npath = "data/shards"\nproportion = 3.0\n\n'
        '[[source]]\nname = "documents"\npath = "files"\nproportion = 1.0\n')
    (directory / "node.toml").write_text('data = "data/shards"\nranks = 2\n')
    write_tree(directory, prefix, build)


def add_model(directory, prefix, weights):
    """Adds a model's directory, and replaces the shards by conversations, with tokens. Needs the package tokenizers;
    with weights torch and transformers, too."""
    import model_directories

    model_directories.make(directory / "DIR", model=weights)
    if not weights or model_directories.is_known("qwen3_5"):
        model_directories.make(directory / "Qwen3.5-4B", "qwen3_5", model=weights)
    for name in MODELS:
        (directory / name).parent.mkdir(exist_ok=True, parents=True)
        (directory / name).symlink_to(directory / "DIR")
    run(prefix, "make-shards", directory / "llava.json", directory / "data/shards", "--force",
        "--media-root", directory / "images")
    run(prefix, "tokenize", directory / "data/shards", "--model", directory / "DIR")


def run(prefix, *words):
    done = subprocess.run([str(word) for word in (prefix / "bin/isocost", *words)], capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"})
    if done.returncode:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def write_tree(directory, prefix, build):
    """Writes the files that a reader in the source tree finds: its own, the programs, the shards of the demo."""
    for name in ("examples", "tests", "bench"):
        (directory / name).symlink_to(ROOT / name)
    (directory / "build/demo").mkdir(parents=True)
    (directory / "build/demo/shards").symlink_to("../../data/shards")
    (directory / "build/release").symlink_to(build)
    (directory / "home").mkdir()
    (directory / "bin").mkdir()
    for name in ("python", "python3"):  # a link would not be that of a virtual environment
        script = directory / "bin" / name
        packages = prefix / "lib/python3/dist-packages"
        script.write_text(f'#!/bin/sh\nexport PYTHONPATH="{packages}"\nexec "{sys.executable}" "$@"\n')
        script.chmod(0o755)
