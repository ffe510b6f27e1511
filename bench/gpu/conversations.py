"""Makes what a vision-language model is fine-tuned on: pictures, clips and conversations about them, and the directory
of a model of Qwen2.5-VL's 3B shape, or of Qwen3.5's kind. Nothing is downloaded; the same seed makes the same files.

Pictures are JPEGs of smooth fields with texture, about 1.5 bits a pixel, as photographs are, of 0.3 to 2 megapixels.
Clips are MPEG-4 of a moving picture, if OpenCV is installed to write them.
"""

import concurrent.futures
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDES = ((640, 480), (800, 600), (1024, 768), (1280, 960), (1600, 1200))
CLIP_SIZE, CLIP_FPS, CLIP_SECONDS = (640, 360), 25, (2, 16)
KINDS = {"picture": 6, "pictures": 1, "clip": 2, "text": 1}  # shares of the conversations
WORDS = ("the picture shows a river under low hills with three boats and a bridge in evening light while people walk "
         "along its bank and someone asks what happens next because nothing in it moves").split()
# Qwen2.5-VL-3B-Instruct's config.json.
TEXT_3B = {"hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16,
           "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
           "rope_scaling": {"type": "mrope", "rope_type": "default", "mrope_section": [16, 24, 24]}}
VISION_3B = {"hidden_size": 1280, "out_hidden_size": 2048, "intermediate_size": 3420, "depth": 32, "num_heads": 16,
             "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112}
# A model of Qwen3.5's kind with about two billion parameters: three of four layers have linear attention.
TEXT_3_5 = {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 8,
            "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151936, "tie_word_embeddings": True,
            "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
            "linear_num_value_heads": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                                "mrope_section": [11, 11, 10], "mrope_interleaved": True}}
VISION_3_5 = {"hidden_size": 1024, "out_hidden_size": 2048, "intermediate_size": 4096, "depth": 24, "num_heads": 16}
SHAPES = {"qwen2_5_vl": (TEXT_3B, VISION_3B), "qwen3_5": (TEXT_3_5, VISION_3_5)}


def picture(path, size, seed):
    import numpy
    from PIL import Image

    generator = numpy.random.default_rng(seed)
    width, height = size
    smooth = Image.fromarray(generator.integers(0, 256, (8, 8, 3), dtype=numpy.uint8)).resize(size, Image.BICUBIC)
    texture = Image.fromarray(generator.integers(0, 256, (height // 3, width // 3, 3), dtype=numpy.uint8))
    Image.blend(smooth, texture.resize(size, Image.BICUBIC), 0.18).save(path, quality=90)


def clip(path, seconds, seed):
    import cv2
    import numpy

    generator = numpy.random.default_rng(seed)
    width, height = CLIP_SIZE
    scene = cv2.resize(generator.integers(0, 256, (18, 64, 3), dtype=numpy.uint8), (4 * width, height),
                       interpolation=cv2.INTER_CUBIC)
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), CLIP_FPS, CLIP_SIZE)
    frames = seconds * CLIP_FPS
    for frame in range(frames):
        left = 3 * width * frame // frames
        writer.write(numpy.ascontiguousarray(scene[:, left:left + width]))
    writer.release()
    if not path.exists() or path.stat().st_size == 0:
        raise RuntimeError(f"OpenCV wrote no MPEG-4 to {path}")


def media_files(folder, pictures, clips, scale):
    """Makes the files in parallel. Returns (pictures, clips), names in the folder."""
    folder.mkdir(parents=True)
    generator = random.Random(7)
    clips = clips if importlib.util.find_spec("cv2") else 0
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = {}
        for i in range(pictures):
            size = tuple(side // scale for side in generator.choice(SIDES))
            jobs[f"p{i:04}.jpg"] = pool.submit(picture, folder / f"p{i:04}.jpg", size, i)
        for i in range(clips):
            seconds = generator.randint(*CLIP_SECONDS) if scale == 1 else 2
            jobs[f"c{i:03}.mp4"] = pool.submit(clip, folder / f"c{i:03}.mp4", seconds, i)
        for job in jobs.values():
            job.result()
    return [name for name in jobs if name.startswith("p")], [name for name in jobs if name.startswith("c")]


def said(generator, least, most):
    return " ".join(generator.choices(WORDS, k=generator.randint(least, most))).capitalize() + "."


def records(count, pictures, clips, scale):
    """LLaVA's conversations: one to four exchanges about one picture, several, a clip, or nothing."""
    generator = random.Random(11)
    kinds = {kind: share for kind, share in KINDS.items() if kind != "clip" or clips}
    made = []
    for i in range(count):
        (kind,) = generator.choices(list(kinds), list(kinds.values()))
        record, opening = {"id": f"{i:06}"}, ""
        if kind.startswith("picture"):
            files = generator.sample(pictures, 1 if kind == "picture" else generator.randint(2, 4))
            record["image"], opening = files, "<image>\n" * len(files)
        elif kind == "clip":
            record["video"], opening = [generator.choice(clips)], "<video>\n"
        turns = []
        for exchange in range(generator.randint(1, 4)):
            question = said(generator, 5 // scale + 1, 30 // scale)
            turns.append({"from": "human", "value": (opening if exchange == 0 else "") + question})
            turns.append({"from": "gpt", "value": said(generator, 20 // scale, 300 // scale)})
        made.append({**record, "conversations": turns})
    return made


def model_directory(folder, family, tiny):
    """The files of a family's model, without weights: of the shape in SHAPES, or tiny. Its tokenizer has a small
    vocabulary."""
    subprocess.run([sys.executable, ROOT / "tests/python/model_directories.py", folder, family, "--no-model"],
                   check=True, capture_output=True, text=True)
    directory = folder / family
    if not tiny:
        text, vision = SHAPES[family]
        file = directory / "config.json"
        config = json.loads(file.read_text())
        config["text_config"].update(text)
        config["vision_config"].update(vision)
        config.update(vocab_size=text["vocab_size"], tie_word_embeddings=True)
        file.write_text(json.dumps(config, indent=2))
    return directory


def this_python_first():
    """`isocost tokenize` runs the first python3 of the PATH."""
    return {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def make(folder, program, count, family="qwen2_5_vl", tiny=False):
    """Makes media, records, shards, tokens and the model's directory below the folder. Returns (records, folder of the
    media, shards, model directory)."""
    scale = 8 if tiny else 1
    pictures, clips = media_files(folder / "media", 24 if tiny else 600, 4 if tiny else 48, scale)
    made = records(count, pictures, clips, scale)
    (folder / "records.json").write_text(json.dumps(made))
    directory = model_directory(folder, family, tiny)
    for command in (["make-shards", folder / "records.json", folder / "shards", "--media-root", folder / "media"],
                    ["tokenize", folder / "shards", "--model", directory]):
        done = subprocess.run([program, *command], capture_output=True, text=True, env=this_python_first())
        if done.returncode != 0:
            raise RuntimeError(f"isocost {command[0]}: {done.stderr.strip()[-2000:]}")
    return made, folder / "media", folder / "shards", directory
