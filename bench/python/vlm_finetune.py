"""Compares fine-tuning a Qwen2.5-VL with Isocost and with PyTorch's DataLoader around the model's own processor.

    ./run bench vlm_finetune     # after ./run test --torch2, which installs what is needed below build/torch2
    python bench/python/vlm_finetune.py [--images 128] [--rounds 5] [--steps 12] [--json FILE]

First part, preparation: JPEG photographs become pixel_values, the exact patches of Qwen2-VL in float32. Contenders:
isocost.DataLoader with two workers, and PyTorch's with two workers around the image processor over torchvision and the
one over Pillow. Second part, training: examples/huggingface/finetune.py and finetune_before.py, two ranks on the CPU,
with a model so small that preparation matters.

Answers are compared before anything is timed. Pixels before normalisation must equal those of the Pillow backend, and
be within 2 of 255 of torchvision's; losses must agree to 1e-4. Contenders take turns in each round. Shards are indexed
and tokenized ahead. Memory is the largest sum of the proportional set sizes of all processes, in a run of its own that
is not timed; "above imports" leaves out that of a process that has only imported torch, transformers and isocost.
Photographs: the demo's where `./run demo` has made them, else pictures with the spectrum of photographs, of a fixed
seed. Needs torch, torchvision, transformers, tokenizers, jinja2 and Pillow.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
EXAMPLES = ROOT / "examples" / "huggingface"
PROGRAM = os.environ.get("ISOCOST_PROGRAM", str(BUILD / "isocost"))
sys.path[:0] = [str(EXAMPLES), str(ROOT / "tests" / "python"), str(ROOT / "bench")]
sys.path.append(str(BUILD / "python"))
import finetune_before  # noqa: E402
import numpy  # noqa: E402
import PIL  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from process_tree import tree  # noqa: E402

import isocost  # noqa: E402
import model_directories  # noqa: E402

WORKERS, BATCH = 2, 4
SMALLEST, LARGEST = 640 * 400, 1920 * 1440  # pixels of a photograph
RANKS, TRAIN_BATCH, MICROBATCHES = 2, 16, 2
TRAIN_PIXELS = 28 * 28 * 256
# Since Pillow 13 the order in which sides are resized is another (docs/models/processor_differences.md).
SAME_ORDER = tuple(map(int, PIL.__version__.split(".")[:2])) < (12, 2)
SAMPLING_S = 0.05
WARM_UP = 4  # steps of training whose samples were prepared while the model was loaded


# Data.


def photographs(given, directory):
    """The photographs of a directory. If it has none, pictures of that kind, which are written to the other."""
    fitting = [file for file in sorted(given.glob("*.jpg")) if SMALLEST <= area(file) <= LARGEST]
    if fitting:
        return fitting
    made = []
    sizes = [(640, 480), (800, 600), (1024, 768), (1080, 1350), (1280, 720), (1280, 960), (1600, 1200), (1920, 1440)]
    for i, (width, height) in enumerate(sizes * 2):
        made.append(directory / f"made-{i:02}.jpg")
        picture(width, height, i).save(made[-1], quality=85 + 5 * (i % 2))
    return made


def area(file):
    with Image.open(file) as image:
        return image.width * image.height


def picture(width, height, seed):
    """Noise whose amplitude falls with the frequency, as in photographs: mostly grey, with less of colour."""
    rng = numpy.random.default_rng(seed)
    frequencies = numpy.hypot(numpy.fft.fftfreq(height)[:, None], numpy.fft.rfftfreq(width)[None])
    frequencies[0, 0] = 1
    grey, *colours = (numpy.fft.irfft2(numpy.fft.rfft2(rng.standard_normal((height, width))) / frequencies ** 1.3,
                                       s=(height, width)) for _channel in range(4))
    channels = [128 + 50 * (grey / grey.std() + 0.3 * colour / colour.std()) for colour in colours]
    return Image.fromarray(numpy.stack(channels, -1).clip(0, 255).astype(numpy.uint8))


def write_data(directory, files, images):
    """Shards of one photograph and two turns each, and two models: Qwen2-VL's preparation, and the one to train."""
    records = [{"id": f"{i:05}", "image": str(files[i % len(files)]),
                "conversations": [{"from": "human", "value": "<image>\nWhat is to be seen?"},
                                  {"from": "gpt", "value": "A photograph of something. " * (1 + i % 5)}]}
               for i in range(images)]
    (directory / "llava.json").write_text(json.dumps(records))
    isocost_command("make-shards", directory / "llava.json", directory / "shards", "--samples-per-shard", "32")
    prepared = model_directories.make(directory / "qwen2_vl", "qwen2_vl")
    trained = model_directories.make(directory / "qwen2_5_vl", "qwen2_5_vl")
    file = trained / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    bounds = {"size": {**settings["size"], "longest_edge": TRAIN_PIXELS}, "max_pixels": TRAIN_PIXELS}
    file.write_text(json.dumps({**settings, **bounds}))
    file = trained / "config.json"
    config = json.loads(file.read_text())
    config["text_config"]["num_hidden_layers"] = 1
    config["vision_config"].update(depth=1, fullatt_block_indexes=[])
    file.write_text(json.dumps(config))
    model_directories.write_model(trained)
    isocost_command("index", directory / "shards")
    isocost_command("tokenize", directory / "shards", "--model", prepared)
    isocost_command("tokenize", directory / "shards", "--model", trained)
    return prepared, trained


def isocost_command(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise SystemExit(f"isocost {arguments[0]} failed: {done.stderr}")


def environment():
    """One thread for each process of torch; this interpreter for `isocost tokenize`."""
    paths = [path for path in (os.environ.get("PYTHONPATH"), str(BUILD / "python")) if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "PATH":
            f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


# Preparation.


def image_processor(model, backend):
    if hasattr(transformers, "Qwen2VLImageProcessorPil"):  # since transformers 5
        made = {"torchvision": transformers.Qwen2VLImageProcessor, "Pillow": transformers.Qwen2VLImageProcessorPil}
    else:
        made = {"torchvision": transformers.Qwen2VLImageProcessorFast, "Pillow": transformers.Qwen2VLImageProcessor}
    return made[backend].from_pretrained(model)


class Patches(finetune_before.Conversations):
    def __init__(self, directory, processor):
        super().__init__(directory)
        self.processor = processor

    def __getitem__(self, index):
        _messages, images = super().__getitem__(index)
        return self.processor(images, return_tensors="pt")["pixel_values"]


def torch_patches(shards, model, backend, workers=WORKERS):
    dataset = Patches(shards, image_processor(model, backend))
    return torch.utils.data.DataLoader(dataset, BATCH, num_workers=workers, collate_fn=torch.cat)


def isocost_patches(shards, model, name="pixel_values"):
    with isocost.DataLoader(shards, model=model, global_batch_size=BATCH, microbatches=1, shuffle=False, epochs=1,
                            workers=WORKERS) as loader:
        for microbatch in loader:
            yield (microbatch if name == "pixel_values" else microbatch.packed)[name]


CONTENDERS = {
    "isocost": isocost_patches,
    "isocost, bytes": lambda shards, model: isocost_patches(shards, model, "vision_patches"),
    "torchvision": lambda shards, model: torch_patches(shards, model, "torchvision"),
    "Pillow": lambda shards, model: torch_patches(shards, model, "Pillow"),
}
IMPORTS = "imports"  # A process that imports what every contender imports, and prepares nothing.


def prepare(name, shards, model):
    """The body of a measured process. Prints the seconds from the loader's making to its end."""
    torch.set_num_threads(1)
    patches, cpu, begin = 0, cpu_seconds(), time.perf_counter()
    for batch in CONTENDERS[name](shards, model) if name != IMPORTS else ():
        patches += len(batch)
        del batch  # Freed as after a step: two batches never exist at once.
    print(json.dumps({"seconds": time.perf_counter() - begin, "cpu_s": cpu_seconds() - cpu, "patches": patches}))


def cpu_seconds():
    """Returns the seconds of this process and of those of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def compare_pixels(shards, model):
    """Ends the program if the contenders' pixels differ by more than they may. Returns the largest differences and the
    share of values that differ."""
    settings = json.loads((model / "preprocessor_config.json").read_text())
    mean, std = (torch.tensor(settings[key])[:, None] for key in ("image_mean", "image_std"))

    def pixels(values):
        return ((values.view(len(values), 3, -1) * std + mean) * 255).round().int()

    found = {}
    for backend, most in (("torchvision", 2), ("Pillow", 0 if SAME_ORDER else 2)):
        largest, different, count = 0, 0, 0
        for ours, theirs in zip(isocost_patches(shards, model), torch_patches(shards, model, backend), strict=True):
            if ours.shape != theirs.shape:
                raise SystemExit(f"isocost has {list(ours.shape)} patches, {backend} has {list(theirs.shape)}")
            difference = (pixels(ours) - pixels(theirs)).abs()
            largest = max(largest, int(difference.max()))
            different += int((difference != 0).sum())
            count += difference.numel()
        if largest > most:
            raise SystemExit(f"pixels differ by up to {largest} of 255 from those of {backend}; {most} are allowed")
        found[backend] = {"largest": largest, "share": different / count}
    return found


# Processes.


def read(pid, name):
    """A file of a process; nothing if it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return ""


def pss(pid):
    """Bytes of a process and its descendants; memory that they share counts once."""
    lines = (line for each in tree(pid) for line in read(each, "smaps_rollup").splitlines())
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def cpu_of(pid):
    """CPU seconds of a process and its descendants, those that have ended included."""
    fields = [read(each, "stat").rpartition(")")[2].split()[11:15] for each in tree(pid)]
    return sum(int(ticks) for own in fields for ticks in own) / os.sysconf("SC_CLK_TCK")


def run(command, memory):
    """Runs a process. Returns its lines of JSON, each with the wall and CPU seconds at which it came, and the largest
    PSS if that is measured."""
    peak = 0
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
            [sys.executable, "-B", *map(str, command)], stdout=subprocess.PIPE, stderr=errors, text=True,
            env=environment()) as process:

        def watch():
            nonlocal peak
            while process.poll() is None:
                peak = max(peak, pss(process.pid))
                time.sleep(SAMPLING_S)

        watching = threading.Thread(target=watch) if memory else None
        if watching:
            watching.start()
        lines = [(time.perf_counter(), cpu_of(process.pid), json.loads(line)) for line in process.stdout
                 if line.startswith("{")]
        if watching:
            watching.join()
        if process.wait() != 0:
            errors.seek(0)
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{errors.read()[-2000:]}")
    return lines, peak


def run_prepare(name, shards, model, memory=False):
    """Returns the result that `prepare` printed, with peak_pss if that is measured."""
    ((_, _, result),), peak = run([__file__, "--prepare", name, shards, model], memory)
    return {**result, "peak_pss": peak}


TRAINERS = {"isocost": ["finetune.py"], "isocost, Trainer": ["finetune.py", "--trainer"],
            "DataLoader": ["finetune_before.py"]}


def run_training(name, shards, model, steps, memory=False):
    """Losses of the steps; median seconds and mean CPU seconds of a step, without the warm-up."""
    script, *more = TRAINERS[name]
    lines, peak = run(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", RANKS, EXAMPLES / script,
                       "--data", shards, "--model", model, "--global-batch-size", TRAIN_BATCH, "--microbatches",
                       MICROBATCHES, "--steps", steps, "--lr", "1e-4", "--no-shuffle",
                       "--output", shards.parent / "out", *more], memory)
    wall, cpu, _ = zip(*lines[WARM_UP - 1:])
    return {"losses": [line["loss"] for _, _, line in lines], "peak_pss": peak,
            "step_s": statistics.median(after - before for before, after in zip(wall, wall[1:])),
            "cpu_s": (cpu[-1] - cpu[0]) / (len(cpu) - 1)}


def compare_losses(losses):
    """The largest relative difference of a step's loss from that of the DataLoader's run."""
    worst = max(abs(loss / other - 1) for own in losses.values() for loss, other in zip(own, losses["DataLoader"]))
    if worst > 1e-4 or len({len(own) for own in losses.values()}) != 1:
        raise SystemExit(f"losses differ: {losses}")
    return worst


# The report.


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def cell(values, digits):
    return "{median:.{0}f} ({least:.{0}f} to {most:.{0}f})".format(digits, **values)


def ratios(runs, key, name, other):
    """Returns the spread of the ratios between two contenders in the same rounds."""
    return spread([mine[key] / theirs[key] for mine, theirs in zip(runs[name], runs[other])])


def all_rounds(contenders, rounds, measure):
    runs = {name: [] for name in contenders}
    for i in range(rounds):
        for name, own in runs.items():
            own.append(measure(name))
            print(f"round {i + 1} of {rounds}, {name}: {own[-1]}", file=sys.stderr)
    return runs


def measure_preparation(shards, model, megapixels, rounds):
    imports = run_prepare(IMPORTS, shards, model, memory=True)["peak_pss"]
    memory = {name: run_prepare(name, shards, model, memory=True) for name in CONTENDERS}
    runs = all_rounds(CONTENDERS, rounds, lambda name: run_prepare(name, shards, model))
    if len({result["patches"] for own in (memory.values(), *runs.values()) for result in own}) != 1:
        raise SystemExit("the numbers of patches differ")
    return {name: {"megapixels_per_s": spread([megapixels / result["seconds"] for result in own]),
                   "cpu_ms_per_megapixel": spread([1e3 * result["cpu_s"] / megapixels for result in own]),
                   "seconds_over_isocost": ratios(runs, "seconds", name, "isocost"),
                   "peak_pss_mb": memory[name]["peak_pss"] / 1e6,
                   "above_imports_mb": (memory[name]["peak_pss"] - imports) / 1e6} for name, own in runs.items()}


def measure_training(shards, model, steps, rounds):
    memory = {name: run_training(name, shards, model, steps, memory=True) for name in TRAINERS}
    compare_losses({name: result["losses"] for name, result in memory.items()})
    runs = all_rounds(TRAINERS, rounds, lambda name: run_training(name, shards, model, steps))
    worst = max(compare_losses({name: own[i]["losses"] for name, own in runs.items()}) for i in range(rounds))
    return {"largest_loss_difference": worst, "contenders": {
        name: {"step_s": spread([result["step_s"] for result in own]),
               "cpu_s": spread([result["cpu_s"] for result in own]),
               "step_s_over_isocost": ratios(runs, "step_s", name, "isocost"),
               "peak_pss_mb": memory[name]["peak_pss"] / 1e6} for name, own in runs.items()}}


def table(title, columns, rows):
    print(f"\n{title:20}" + "".join(f"{name:>26}" for name, _, _ in columns))
    for name, row in rows.items():
        cells = (cell(row[key], digits) if isinstance(row[key], dict) else f"{row[key]:.{digits}f}"
                 for _, key, digits in columns)
        print(f"{name:20}" + "".join(f"{text:>26}" for text in cells))


def print_result(result):
    print(f"{result['images']} photographs ({result['photographs']}), {result['megapixels']:.0f} megapixels; "
          f"{result['rounds']} rounds; median (least to most)")
    for backend, difference in result["pixels"].items():
        print(f"pixels differ from those of {backend} by up to {difference['largest']} of 255, "
              f"in {difference['share']:.2%} of the values")
    table("preparation", [("MPix/s", "megapixels_per_s", 1), ("CPU ms per MPix", "cpu_ms_per_megapixel", 1),
                          ("seconds over isocost's", "seconds_over_isocost", 2), ("peak PSS, MB", "peak_pss_mb", 0),
                          ("above imports, MB", "above_imports_mb", 0)], result["preparation"])
    if result["training"] is None:
        return
    table("training, two ranks", [("step, s", "step_s", 3), ("CPU s per step", "cpu_s", 3),
                                  ("seconds over isocost's", "step_s_over_isocost", 2),
                                  ("peak PSS, MB", "peak_pss_mb", 0)], result["training"]["contenders"])
    print(f"a step's loss differs by at most {result['training']['largest_loss_difference']:.1e} of it")


def main():
    if sys.argv[1:2] == ["--prepare"]:
        name, shards, model = sys.argv[2:]
        prepare(name, shards, model)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=128,
                        help=f"number of samples, a multiple of {TRAIN_BATCH} (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=12,
                        help=f"of each run of training, {WARM_UP + 2} or more; 0: only the first part "
                             "(default: %(default)s)")
    parser.add_argument("--photographs", type=pathlib.Path, metavar="DIR", default=ROOT / "build" / "demo" / "made",
                        help="directory of JPEG files; where it has none, some are made (default: %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the results there")
    arguments = parser.parse_args()
    if arguments.images < 1 or arguments.images % TRAIN_BATCH:
        parser.error(f"--images {arguments.images}: must be a multiple of {TRAIN_BATCH}: epochs end with a step")
    if 0 < arguments.steps < WARM_UP + 2:
        parser.error(f"--steps {arguments.steps}: must be 0, or {WARM_UP + 2} or more")
    with tempfile.TemporaryDirectory(prefix="isocost-bench-") as temporary:
        directory = pathlib.Path(temporary)
        files = photographs(arguments.photographs, directory)
        prepared, trained = write_data(directory, files, arguments.images)
        shards = directory / "shards"
        megapixels = sum(area(files[i % len(files)]) for i in range(arguments.images)) / 1e6
        result = {"photographs": "made by this program" if files[0].parent == directory else str(arguments.photographs),
                  "images": arguments.images, "megapixels": megapixels, "rounds": arguments.rounds,
                  "pixels": compare_pixels(shards, prepared),
                  "preparation": measure_preparation(shards, prepared, megapixels, arguments.rounds),
                  "training": measure_training(shards, trained, arguments.steps, arguments.rounds)
                  if arguments.steps else None}
    print_result(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
