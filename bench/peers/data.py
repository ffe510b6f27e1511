"""The data set of a work on the disk: the list of its samples, shards for those that read shards, model directories.

Every contender reads the same bytes. What a contender prepares ahead of training by its own documentation (an index,
tokens, shards of its own format) is prepared here, outside the clock.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import media
import nginx
from works import FRAMES, MEAN, SIDE, STD

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
PROGRAM = os.environ.get("ISOCOST_PROGRAM", str(BUILD / "isocost"))
TRAINERS = pathlib.Path(os.environ.get("ISOCOST_TRAINERS", BUILD / "bench" / "peers"))  # in C++
FAMILIES = {"square": "llava_siglip", "qwen2_vl": "qwen2_vl", "qwen3_5": "qwen3_5",
            "frames": "llava_onevision", "log_mel": "whisper"}


@dataclasses.dataclass(frozen=True)
class Data:
    """The places of a work's samples. A contender reads them `passes` times, one pass after the other.

    Attributes:
        directory: of this work, below which contenders may keep what they prepare.
        samples: of one pass; a sample is a list of (name, path) of its media and (name, text) of its texts.
        shards: WebDataset tars, one for each pass.
        model: the model's directory for Isocost and transformers; None: the recipe native28.
        server: the Server that has `directory`; None: files are read from the disk.
    """

    directory: pathlib.Path
    samples: list
    shards: pathlib.Path
    model: pathlib.Path
    passes: int
    server: nginx.Server | None = None

    @property
    def files(self):
        """The paths of one pass, where samples have one medium each."""
        return [next(value for name, value in sample if name != "txt") for sample in self.samples]

    @property
    def all_files(self):
        return self.files * self.passes

    @property
    def tars(self):
        """Paths of the shards, or their addresses."""
        places = sorted(map(str, self.shards.glob("*.tar")))
        return [place.replace(str(self.directory), self.server.address) for place in places] if self.server else places

    @property
    def source(self):
        """The shards as Isocost takes them."""
        last = f"{self.passes - 1:06}"
        return f"{self.server.address}/shards/shard-{{000000..{last}}}.tar" if self.server else self.shards

    @property
    def index_dir(self):
        """The directory of Isocost's indexes of a server's shards; empty: beside the shards."""
        return os.path.join(self.server.scratch, "indexes") if self.server else ""


def prepare(work, demo, directory):
    """Makes what is missing of a work's data set below `directory`. Returns it."""
    own = directory / "data" / work.folder
    records = media.samples(work.media, work.files, demo, directory / "media" / work.media)
    if len(records) % work.batch:
        raise SystemExit(f"{work.name}: {len(records)} samples are no whole batches of {work.batch}")
    write_shards(records, own, work.passes)
    model = write_model(FAMILIES[work.output], own / "model") if work.output in FAMILIES else None
    data = Data(own, sample_list(records), own / "shards", model, work.passes)
    (own / "samples.json").write_text(json.dumps(data.samples))
    if work.latency_ms is None:
        index(data)
    return data


def index(data):
    options = ["--index-dir", data.index_dir] if data.server else []
    isocost("index", data.source, *options, started=data.server)
    if data.model:
        isocost("tokenize", data.source, "--model", data.model, *options, started=data.server)


@contextlib.contextmanager
def served(work, data, directory):
    """The data set on a server, if the work has one."""
    if work.latency_ms is None:
        yield data
        return
    with nginx.serving(data.directory, directory / "server", work.latency_ms) as started:
        data = dataclasses.replace(data, server=started)
        index(data)
        yield data


def load(work, directory, started):
    """A data set that `prepare` has made, for the process of a contender."""
    model = directory / "model"
    return Data(directory, json.loads((directory / "samples.json").read_text()), directory / "shards",
                model if model.exists() else None, work.passes, started)


def sample_list(records):
    return [[(part["name"], part.get("file", part.get("text"))) for part in record["parts"]] for record in records]


def write_shards(records, own, passes):
    """A tar for each pass, with keys of its own."""
    shards, manifest = own / "shards", own / "manifest.jsonl"
    text = "".join(json.dumps({**record, "key": f"{i}-{record['key']}"}) + "\n"
                   for i in range(passes) for record in records)
    if manifest.exists() and manifest.read_text() == text and len(list(shards.glob("*.tar"))) == passes:
        return
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    part = manifest.with_suffix(".part")
    part.write_text(text)
    isocost("make-shards", part, shards, "--samples-per-shard", len(records), "--shard-size", "8GiB")
    part.rename(manifest)


def isocost(*arguments, started=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=environment(started))
    if done.returncode != 0:
        raise SystemExit(f"isocost {arguments[0]} failed: {done.stderr}")


def environment(started=None):
    """One thread for each process of torch; this interpreter for `isocost tokenize`; where a server's objects are."""
    paths = [path for path in (os.environ.get("PYTHONPATH"), str(BUILD / "python")) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false", **(started.environment() if started else {}),
            "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def edit(file, change):
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))


def write_model(family, directory):
    """A model's directory with the sizes of this benchmark: 384x384 pixels, SigLIP's normalisation."""
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    import model_directories

    model_directories.make(directory, family)
    square = {"size": {"height": SIDE, "width": SIDE}, "image_mean": [MEAN] * 3, "image_std": [STD] * 3}
    canvases = [[SIDE * i, SIDE * j] for i in range(1, 4) for j in range(1, 4)]
    if family in ("llava_siglip", "llava_onevision"):
        edit(directory / "config.json", lambda config: config["vision_config"].update(image_size=SIDE))
        edit(directory / "preprocessor_config.json", lambda settings: settings.update(square))
    if family == "llava_onevision":
        edit(directory / "config.json", lambda config: config.update(image_grid_pinpoints=canvases))
        edit(directory / "preprocessor_config.json", lambda settings: settings.update(image_grid_pinpoints=canvases))
        edit(directory / "video_preprocessor_config.json",
             lambda settings: settings.update(square, num_frames=FRAMES))
        edit(directory / "processor_config.json",
             lambda settings: settings.update(num_image_tokens=(SIDE // 14) ** 2))
    if family == "whisper":
        edit(directory / "config.json", lambda config: config.update(max_target_positions=448))
    return directory
