#!/usr/bin/env python3
"""Fetches real media from Debian's packages and writes the demo's manifest.

Nothing is installed: the packages are downloaded with apt-get and unpacked below build/demo. What is
there already is kept, so a second run takes a second; the same seed gives the same manifest.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys

PACKAGES = {  # package: what is unpacked of it
    "tuxpaint-stamps-default": "./usr/share/tuxpaint/stamps",
    "mate-backgrounds": "./usr/share/backgrounds",
    "opencv-doc": "./usr/share/doc/opencv-doc/examples/data",
}
VIDEOS = {  # file: (seconds, what it shows)
    "vtest.avi": (79.5, "People cross a square, seen from above."),
    "Megamind.avi": (11.2, "A scene of an animated film."),
    "Megamind_bugy.avi": (9.0, "A scene of an animated film, recorded with faults."),
    "tree.avi": (29.6, "A tree in the wind."),
}
CLIPS = 120
PHOTO_WIDTHS = (448, 640, 896, 1280, 1920)
SPOKEN = {"flac": [], "mp3": ["-b:a", "48k"], "opus": ["-b:a", "24k"], "wav": []}

Stamp = collections.namedtuple("Stamp", "image captions spoken")


class Media:
    """Files below one directory; those that are missing are made."""

    def __init__(self, directory, progress):
        self.directory = directory
        self.progress = progress
        self.unpacked = directory / "media"

    def fetch(self):
        debs = self.directory / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        missing = [p for p in PACKAGES if not list(debs.glob(f"{p}_*.deb"))]
        if missing:
            self.progress(0, 1, "downloading " + ", ".join(missing))
            download(debs, missing)
        for done, (package, folder) in enumerate(PACKAGES.items()):
            self.progress(done, len(PACKAGES), "unpacking " + package)
            self.unpack(next(iter(sorted(debs.glob(f"{package}_*.deb")))), folder)

    def unpack(self, deb, folder):
        mark = self.unpacked / (deb.stem + ".unpacked")
        if mark.exists():
            return
        self.unpacked.mkdir(parents=True, exist_ok=True)
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as tar:
            run(["tar", "-x", "-C", self.unpacked, folder], stdin=tar.stdout)
        if tar.returncode != 0:
            raise SystemExit(f"{deb} cannot be unpacked: remove it and run the demo again")
        mark.touch()

    def convert(self, source, target, before=(), after=()):
        """Makes `target` from `source` with ffmpeg. The file appears when it is complete."""
        target = self.directory / "made" / target
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name("part-" + target.name)
            run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-threads", "1", *before, "-i", source,
                 *after, "-map_metadata", "-1", "-fflags", "+bitexact", part])
            part.rename(target)
        return target

    def stamps(self):
        """Drawings and photographs with captions by language, and spoken descriptions."""
        stamps = []
        for image in sorted((self.unpacked / "usr/share/tuxpaint").rglob("*.png")):
            text = image.with_suffix(".txt")
            if not text.exists():
                continue
            captions = read_captions(text)
            spoken = {}
            for sound in sorted(image.parent.glob(glob_escape(image.stem) + "_desc*.ogg")):
                language = sound.stem[len(image.stem) + len("_desc"):].lstrip("_") or "en"
                spoken[language] = sound
            if captions:
                stamps.append(Stamp(image, captions, spoken))
        return stamps

    def photographs(self):
        """Returns the large and the small photographs."""
        large = sorted((self.unpacked / "usr/share/backgrounds").rglob("*.jpg"))
        small = sorted((self.unpacked / "usr/share/doc/opencv-doc/examples/data").glob("*.jpg"))
        return large, small


def glob_escape(name):
    return re.sub(r"([\[\]*?])", r"[\1]", name)


def run(command, **options):
    done = subprocess.run([str(c) for c in command], stdin=options.pop("stdin", subprocess.DEVNULL),
                          capture_output=True, text=True, errors="replace", **options)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip()}")


def download(debs, packages):
    """Downloads as root or not, with the system's package lists or, if there are none, with lists of its own."""
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []
    command = ["apt-get", "-q", *sandbox, "download", *packages]
    if subprocess.run(command, cwd=debs, capture_output=True).returncode == 0:
        return
    own = debs / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (own / folder).mkdir(parents=True, exist_ok=True)
    options = [*sandbox, "-o", f"Dir::State::Lists={own.resolve()}/lists",
               "-o", f"Dir::Cache={own.resolve()}/cache"]
    run(["apt-get", "-q", *options, "update"], cwd=debs)
    run(["apt-get", "-q", *options, "download", *packages], cwd=debs)


def read_captions(file):
    lines = file.read_text(encoding="utf-8", errors="strict").splitlines()
    captions = {"en": lines[0].strip()} if lines and lines[0].strip() else {}
    for line in lines[1:]:
        name, _, text = line.partition("=")
        if name.endswith(".utf8") and text.strip():
            captions[name[:-len(".utf8")]] = text.strip()
    return captions


def choose_clips(rng):
    """Returns (video, start, seconds, width, form) of each clip. Lengths are log-normal, as in real data sets."""
    clips = []
    for _ in range(CLIPS):
        video = rng.choices(list(VIDEOS), weights=[6, 2, 1, 2])[0]
        length = min(rng.lognormvariate(math.log(5), 0.9), 40.0, VIDEOS[video][0] - 0.5)
        length = round(max(length, 1.0), 1)
        start = round(rng.uniform(0, VIDEOS[video][0] - length - 0.4), 1)
        form = rng.choices(["h264.mp4", "mpeg4.avi", "hevc.mkv", "vp9.webm", "copy.avi"],
                           weights=[5, 2, 1, 1, 2])[0]
        if form == "copy.avi" and not video.startswith("Megamind"):
            form = "h264.mkv"
        clips.append((video, start, length, rng.choice([224, 308, 392, 560]), form))
    return clips


def clip_arguments(clip):
    _, start, length, width, form = clip
    codec, _, container = form.partition(".")
    coder = {
        "h264": ["-c:v", "libx264", "-preset", "ultrafast", "-crf", "28", "-g", "30"],
        "hevc": ["-c:v", "libx265", "-preset", "ultrafast", "-crf", "30", "-x265-params",
                 "log-level=error:pools=1:frame-threads=1"],
        "vp9": ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-crf", "40",
                "-b:v", "0", "-g", "30"],
        "mpeg4": ["-c:v", "mpeg4", "-q:v", "6"],
        "copy": ["-c:v", "copy"],
    }[codec]
    scale = [] if codec == "copy" else ["-vf", f"scale={width}:-2,format=yuv420p"]
    name = f"clip-{pathlib.Path(clip[0]).stem}-{start}-{length}-{width}-{codec}.{container}"
    return name, ["-ss", str(start), "-t", str(length)], ["-an", *scale, *coder]


def make_all(media, rng):
    """Makes clips, scaled photographs, and spoken descriptions in other formats, on all cores."""
    jobs = []
    folder = media.unpacked / "usr/share/doc/opencv-doc/examples/data"
    clips = choose_clips(rng)
    for clip in clips:
        name, before, after = clip_arguments(clip)
        jobs.append((folder / clip[0], name, before, after))
    large, small = media.photographs()
    scaled = [(photo, width) for photo in large for width in PHOTO_WIDTHS]
    for photo, width in scaled:
        jobs.append((photo, f"photo-{photo.stem}-{width}.jpg", (),
                     ["-vf", f"scale={width}:-2", "-q:v", "3"]))
    sounds = sorted((media.unpacked / "usr/share/tuxpaint").rglob("*_desc_fr.ogg"))
    converted = [(rng.choice(sounds), extension) for extension in SPOKEN for _ in range(10)]
    for sound, extension in converted:
        jobs.append((sound, f"spoken-{sound.stem}.{extension}", (), SPOKEN[extension]))

    made = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in pool.map(lambda job: media.convert(*job), jobs):
            made.append(path)
            media.progress(len(made), len(jobs), "cutting clips, scaling photographs")
    first, second = len(clips), len(clips) + len(scaled)
    photos = [(p, s[0].stem) for p, s in zip(made[first:second], scaled)]
    photos += [(p, p.stem) for p in large + small]
    return list(zip(made[:first], clips)), photos, made[second:]


class Samples:
    """Draws samples of every kind from the media."""

    def __init__(self, stamps, clips, photos, sounds, rng):
        self.stamps, self.clips, self.photos, self.sounds = stamps, clips, photos, sounds
        self.spoken = [s for s in stamps if s.spoken]
        self.rng = rng
        self.next_clip = 0

    def caption(self, stamp, language=None):
        if language in stamp.captions:
            return stamp.captions[language]
        return stamp.captions[self.rng.choice(sorted(stamp.captions))]

    def stamp(self):
        stamp = self.rng.choice(self.stamps)
        return [("png", stamp.image), ("txt", self.caption(stamp))]

    def described(self):
        stamp = self.rng.choice(self.spoken)
        language = self.rng.choice(sorted(stamp.spoken))
        return [("png", stamp.image), ("ogg", stamp.spoken[language]),
                ("txt", self.caption(stamp, language))]

    def speech(self):
        if self.rng.random() < 0.3:
            sound = self.rng.choice(self.sounds)
            return [(sound.suffix[1:], sound), ("txt", "A spoken description in French.")]
        parts = []
        for i in range(min(16, 1 + int(self.rng.lognormvariate(0.6, 0.9)))):
            stamp = self.rng.choice(self.spoken)
            language = self.rng.choice(sorted(stamp.spoken))
            parts += [(f"{2 * i:02}.ogg", stamp.spoken[language]),
                      (f"{2 * i + 1:02}.txt", self.caption(stamp, language))]
        return parts

    def several(self):
        stamps = self.rng.sample(self.stamps, self.rng.randint(2, 6))
        parts = [(f"{i}.png", stamp.image) for i, stamp in enumerate(stamps)]
        names = ", ".join(self.caption(s, "en") for s in stamps)
        return parts + [("txt", f"Pictures, in this order: {names}")]

    def interleaved(self):
        parts = []
        for _ in range(self.rng.randint(1, 4)):
            stamp = self.rng.choice(self.spoken)
            language = self.rng.choice(sorted(stamp.spoken))
            for extension, value in (("txt", self.caption(stamp, language)), ("png", stamp.image),
                                     ("ogg", stamp.spoken[language])):
                parts.append((f"{len(parts):02}.{extension}", value))
        return parts

    def photograph(self):
        path, title = self.rng.choice(self.photos)
        words = re.sub(r"[-_]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", title)).strip()
        return [("jpg", path), ("txt", f"A photograph: {words}.")]

    def clip(self):
        path, (video, start, length, _, _) = self.clips[self.next_clip % len(self.clips)]
        self.next_clip += 1
        return [(path.suffix[1:], path),
                ("txt", f"{VIDEOS[video][1]} {length} seconds, from second {start} on.")]

    def text(self):
        wanted = min(3000, self.rng.lognormvariate(math.log(350), 0.9))
        lines, size = [], 0
        while size < wanted:
            lines.append(self.caption(self.rng.choice(self.stamps)))
            size += len(lines[-1].encode()) + 1
        return [("txt", "\n".join(lines))]


KINDS = {"stamp": 38, "described": 20, "speech": 8, "several": 8, "interleaved": 8, "photograph": 6,
         "clip": 6, "text": 6}


def write_manifest(file, samples, count, rng):
    quota = [k for k, share in KINDS.items() for _ in range(share * count // 100)]
    quota += ["stamp"] * (count - len(quota))
    rng.shuffle(quota)
    part_file = file.with_suffix(".part")
    with part_file.open("w", encoding="utf-8") as out:
        for number, kind in enumerate(quota):
            parts = []
            for name, value in getattr(samples, kind)():
                if isinstance(value, pathlib.Path):
                    parts.append({"name": name, "file": os.path.relpath(value, file.parent)})
                else:
                    parts.append({"name": name, "text": value})
            if rng.random() < 0.1:
                parts.append({"name": "json", "json": {"kind": kind, "weight": 0.5}})
            out.write(json.dumps({"key": f"{kind}-{number:05}", "parts": parts},
                                 ensure_ascii=False) + "\n")
    part_file.rename(file)


def prepare(directory, count=2048, seed=0, progress=lambda done, total, what: None):
    """Returns the path of the manifest. Makes it, and the files that it names, if they are missing."""
    directory = pathlib.Path(directory)
    manifest = directory / f"manifest-{count}-{seed}.jsonl"
    if manifest.exists():
        return manifest
    media = Media(directory, progress)
    media.fetch()
    rng = random.Random(seed)
    clips, photos, sounds = make_all(media, rng)
    progress(1, 1, "writing the manifest")
    write_manifest(manifest, Samples(media.stamps(), clips, photos, sounds, rng), count, rng)
    return manifest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", default="build/demo", help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=2048, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args()
    print(prepare(options.directory, options.samples, options.seed,
                  lambda done, total, what: print(f"\r{done}/{total} {what}  ", end="",
                                                  file=sys.stderr)))


if __name__ == "__main__":
    main()
