"""Compares `isocost tokenize` with rendering the chat template and calling encode_batch of the package tokenizers.

    ./run bench tokenize_bench     # after ./run test --torch2, which installs what is needed below build/torch2
    python bench/python/tokenize_bench.py [--conversations 20000] [--rounds 5] [--json FILE]

Both read the same conversations, made from this repository's documents, and use as many threads as the machine has
cores; tokens are counted and compared before anything is timed. The other contender has the messages in memory, renders
them with Jinja and encodes them in batches: it reads no shards, finds no labels and writes nothing, which
`isocost tokenize` does, with its start, in the time that is shown. Contenders take turns. Needs tokenizers and jinja2,
and dashscope for Qwen's vocabulary of 151,643 entries (without it, a small one).
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
PROGRAM = os.environ.get("ISOCOST_PROGRAM", str(BUILD / "isocost"))
sys.path[:0] = [str(ROOT / "tests" / "python"), str(BUILD / "python")]
import jinja2.sandbox  # noqa: E402
import tokenizers  # noqa: E402

import model_directories  # noqa: E402

BATCH = 1000  # texts of one call of encode_batch


def conversations(count):
    """Two to six turns of 10 to 200 words each, from the documents."""
    text = " ".join(file.read_text() for file in sorted((ROOT / "docs").glob("*.md")))
    words = [word for word in text.split(" ") if "<" not in word]  # No placeholders of media.
    choose = random.Random(1)
    made = []
    for _ in range(count):
        messages = []
        for turn in range(2 * choose.randint(1, 3)):
            first = choose.randrange(len(words) - 200)
            content = " ".join(words[first:first + choose.randint(10, 200)])
            messages.append({"role": ("user", "assistant")[turn % 2], "content": content})
        made.append(messages)
    return made


def write_data(directory, made):
    lines = "\n".join(json.dumps({"id": f"{i:06}", "messages": messages}) for i, messages in enumerate(made))
    (directory / "messages.jsonl").write_text(lines + "\n")
    isocost("make-shards", directory / "messages.jsonl", directory / "shards", "--samples-per-shard", "2000")
    isocost("index", directory / "shards")
    return model_directories.make(directory / "model", "qwen2_5_vl")


def isocost(*arguments):
    paths = [path for path in (os.environ.get("PYTHONPATH"), str(BUILD / "python")) if path]
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PATH": path})
    if done.returncode != 0:
        raise SystemExit(f"isocost {arguments[0]} failed: {done.stderr}")
    return done.stdout


def by_isocost(directory, model):
    """Tokens, and seconds of the whole command."""
    index = directory / "tokens"
    shutil.rmtree(index, ignore_errors=True)
    shutil.copytree(directory / "shards" / ".isocost", index)
    begin = time.perf_counter()
    result = json.loads(isocost("tokenize", directory / "shards", "--model", model, "--index-dir", index, "--json"))
    return result["tokens"], time.perf_counter() - begin


def by_hand(made, model):
    """Tokens, and seconds without the reading of tokenizer and template."""
    tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                                extensions=["jinja2.ext.loopcontrols"])
    template = environment.from_string((model / "chat_template.jinja").read_text())
    begin = time.perf_counter()
    tokens = 0
    for first in range(0, len(made), BATCH):
        texts = [template.render(messages=messages) for messages in made[first:first + BATCH]]
        tokens += sum(len(encoding) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False))
    return tokens, time.perf_counter() - begin


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=20000, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the results there")
    arguments = parser.parse_args()
    made = conversations(arguments.conversations)
    with tempfile.TemporaryDirectory(prefix="isocost-bench-") as temporary:
        directory = pathlib.Path(temporary)
        model = write_data(directory, made)
        ours, theirs = by_isocost(directory, model)[0], by_hand(made, model)[0]
        if ours != theirs:
            raise SystemExit(f"isocost makes {ours} tokens, rendering and encode_batch {theirs}")
        seconds = [(by_isocost(directory, model)[1], by_hand(made, model)[1]) for _ in range(arguments.rounds)]
    result = {"conversations": len(made), "tokens": ours, "rounds": arguments.rounds,
              "isocost_s": spread([own for own, _ in seconds]), "encode_batch_s": spread([its for _, its in seconds]),
              "ratio": spread([own / its for own, its in seconds])}
    print(f"{result['conversations']} conversations, {ours} tokens, {arguments.rounds} rounds; median (least to most)")
    for name, key in (("isocost tokenize, s", "isocost_s"), ("render and encode_batch, s", "encode_batch_s"),
                      ("ratio of the same round", "ratio")):
        print("{:28}{median:8.2f} ({least:.2f} to {most:.2f})".format(name, **result[key]))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
