"""Makes the files of each work from the demo's media, once: build/peers/media/NAME. Same demo, same files."""

import json
import pathlib
import random
import subprocess

SMALLEST, LARGEST = 640 * 400, 1920 * 1440  # pixels of a photograph
SMALL_SIDE, PNG_WIDTH = 256, 896
KEY_FRAMES = 48  # frames from one to the next: 2 to 5 s, as web videos have
EXAMPLES = pathlib.Path("media/usr/share/doc/opencv-doc/examples/data")
STAMPS = pathlib.Path("media/usr/share/tuxpaint")
# Video, first second, seconds.
SHORT_CLIPS = ([("Megamind.avi", start, 3) for start in range(8)]
               + [("vtest.avi", 8 * start, 4) for start in range(8)])
LONG_CLIPS = [("vtest.avi", start, length) for start, length in ((0, 78), (10, 60), (20, 55), (5, 45))]


def photographs(demo):
    """Photographs of 0.26 to 2.8 megapixels, in an order of no kind."""
    files = [file for folder in ("made", "media/usr/share/backgrounds", EXAMPLES)
             for file in sorted((demo / folder).rglob("*.jpg")) if is_photograph(file)]
    random.Random(1).shuffle(files)
    if not files:
        raise SystemExit(f"{demo}: has no photographs: python3 examples/demo/demo.py --media-only makes them")
    return files


def is_photograph(file):
    from PIL import Image  # here, so that --help needs no package

    with Image.open(file) as image:
        return SMALLEST <= image.width * image.height <= LARGEST and image.mode == "RGB"


def repeated(files, count):
    return [files[i % len(files)] for i in range(count)]


def scaled(files, directory, size_of, suffix, **options):
    """The photographs again, of another size or format. Returns their paths."""
    from PIL import Image

    made = []
    for i, file in enumerate(files):
        target = directory / f"{i:04}{suffix}"
        if not target.exists():
            with Image.open(file) as image:
                image.convert("RGB").resize(size_of(*image.size), Image.BICUBIC).save(target, **options)
        made.append(target)
    return made


def small_size(width, height):
    least = min(width, height)
    return round(width * SMALL_SIDE / least), round(height * SMALL_SIDE / least)


def png_size(width, height):
    return PNG_WIDTH, round(height * PNG_WIDTH / width)


def clips(demo, directory, wanted):
    """H.264 of 1280x720. Returns their paths."""
    made = []
    for video, start, length in wanted:
        target = directory / f"{pathlib.Path(video).stem}-{start}-{length}.mp4"
        if not target.exists():
            part = target.with_name("part-" + target.name)
            subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-ss", str(start), "-t", str(length), "-i",
                            demo / EXAMPLES / video, "-an", "-vf", "scale=1280:720,format=yuv420p", "-c:v", "libx264",
                            "-preset", "fast", "-crf", "23", "-g", str(KEY_FRAMES), "-map_metadata", "-1",
                            "-movflags", "+faststart", part], check=True)
            part.rename(target)
        made.append(target)
    random.Random(1).shuffle(made)
    return made


def speech(demo):
    """Makes spoken descriptions, with their words in files beside them."""
    files = sorted((demo / STAMPS).rglob("*_desc.ogg"))
    random.Random(1).shuffle(files)
    return files


def one_file_samples(files, text):
    """Records of a manifest: a medium and a text each."""
    return [{"key": f"{i:06}", "parts": [{"name": file.suffix[1:].lower(), "file": str(file)},
                                         {"name": "txt", "text": text}]} for i, file in enumerate(files)]


def mixture(demo, count):
    """The first samples of the demo's manifest, without their JSON."""
    manifest = max(demo.glob("manifest-*.jsonl"), default=None)
    if manifest is None:
        raise SystemExit(f"{demo}: has no manifest: python3 examples/demo/demo.py --media-only makes it")
    records = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()[:count]]
    for record in records:
        record["parts"] = [part if "text" in part else {**part, "file": str((demo / part["file"]).resolve())}
                           for part in record["parts"] if part["name"].rpartition(".")[2] != "json"]
    return records


def samples(name, count, demo, directory):
    """`count` records of a kind of media, as `isocost make-shards` takes them; files that are missing are made."""
    demo, directory = demo.resolve(), directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if name == "mixture":
        return mixture(demo, count)
    if name == "speech":
        return one_file_samples(repeated(speech(demo), count), "A spoken description.")
    if name in ("short_clips", "long_clips"):
        wanted = SHORT_CLIPS if name == "short_clips" else LONG_CLIPS
        return one_file_samples(repeated(clips(demo, directory, wanted), count), "A clip.")
    files = photographs(demo)
    if name == "small":
        files = scaled(files, directory, small_size, ".jpg", quality=90)
    elif name == "png":
        files = scaled(files[:count], directory, png_size, ".png")
    return one_file_samples(repeated(files, count), "A photograph.")
