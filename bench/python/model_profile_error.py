"""How far are predicted seconds from measured ones, for the modules of small models of transformers on one core?

    ./run bench model_profile_error     # after ./run test --torch2, which installs what is needed below build/torch2
    python bench/python/model_profile_error.py [--budget 60] [--microbatches 24] [--passes 4] [--only llm] [--json FILE]

Each module is measured as `isocost model profile DIR` measures it. Microbatches of mixed sizes that the model profile
has not seen run before and after that, half of the passes each; `isocost predict` predicts them from the profile. A row
for each module: the median, the mean and the 95th percentile of the relative errors, and their median with sign. The
last column is how much passes of a microbatch differ, half of the range over the median: no prediction is better.

Modules have 4 layers of width 256, patches of 14 or 16 pixels and a vocabulary of some 1,500 tokens. Pictures have
sides and aspects at random; the last of four layers of Qwen2.5-VL's encoder sees the whole picture, the others windows.
Whisper's decoder attends to 30 s of sound in each sample, and its samples are rows of the longest one's length, as are
those of linear attention. Mixtures have 8 experts of a quarter of the MLP's width, two of which a token takes. Seconds
are CPU seconds of one thread, which other programs on the machine disturb less. Denormal numbers count as zero: the
states of linear attention decay to them, and a CPU, unlike a GPU, multiplies them many times as slowly as others. Needs
torch and transformers.
"""

import argparse
import gc
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", KINETO_LOG_LEVEL="99")
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
PROGRAM = os.environ.get("ISOCOST_PROGRAM", str(BUILD / "isocost"))
sys.path[:0] = [str(ROOT / "tests" / "python")]
sys.path.append(str(BUILD / "python"))
import torch  # noqa: E402

import model_directories  # noqa: E402
from isocost.profiling.built_modules import BuiltModule, How, measure  # noqa: E402
from isocost.profiling.clock import HostClock, clock_of_device  # noqa: E402
from isocost.profiling.profile_model import document_of, write  # noqa: E402
from isocost.profiling.profiler import backward  # noqa: E402
from isocost.profiling.random_loads import module_loads  # noqa: E402
from isocost.profiling.skeleton import Skeleton  # noqa: E402

LAYERS, WIDTH, HEADS = 4, 256, 8
MOST = {"vision": 4096, "audio": 9000, "llm": 1024}  # patches, positions and tokens of the largest microbatch
LEAST_PATCHES, LEAST_TOKENS = 64, 32
CONTENDERS = (("qwen2_5_vl", "vision"), ("qwen2_vl", "vision"), ("qwen3_vl", "vision"), ("llava", "vision"),
              ("llava_onevision", "vision"), ("internvl", "vision"), ("qwen2_audio", "audio"), ("whisper", "audio"),
              ("qwen2_5_vl", "llm"), ("qwen3_vl", "llm"), ("llava", "llm"), ("qwen2_audio", "llm"), ("whisper", "llm"),
              ("qwen3_vl_moe", "llm"), ("qwen3_5", "llm"), ("qwen3_5_moe", "llm"))
MIXED = ("qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")  # layers of experts or linear attention
ONE_SIZE = ("llava", "llava_onevision", "internvl", "qwen2_audio", "whisper")  # of what their encoders see


def write_model(directory, family):
    """A directory of the family whose modules are of the size above."""
    model_directories.make(directory, family)
    file = directory / "config.json"
    config = json.loads(file.read_text())
    if family == "whisper":
        config.update(d_model=WIDTH, max_target_positions=448, **{
            f"{side}_{name}": value for side in ("encoder", "decoder")
            for name, value in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", 4 * WIDTH))})
        file.write_text(json.dumps(config))
        return directory
    config["text_config"].update(hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
                                 num_attention_heads=HEADS, num_key_value_heads=HEADS // 4)
    encoder = config["audio_config" if family == "qwen2_audio" else "vision_config"]
    if family == "qwen2_vl":
        encoder.update(embed_dim=WIDTH, hidden_size=WIDTH, mlp_ratio=4, depth=LAYERS, num_heads=HEADS)
    elif family in ("qwen2_5_vl", "qwen3_vl", *MIXED):
        encoder.update(hidden_size=WIDTH, out_hidden_size=WIDTH, intermediate_size=4 * WIDTH, depth=LAYERS,
                       num_heads=HEADS, **({"fullatt_block_indexes": [LAYERS - 1]} if family == "qwen2_5_vl" else
                                           {} if "qwen3_5" in family else {"deepstack_visual_indexes": [1, 2]}))
    elif family == "qwen2_audio":
        encoder.update(d_model=WIDTH, encoder_layers=LAYERS, encoder_attention_heads=HEADS, encoder_ffn_dim=4 * WIDTH)
    else:
        encoder.update(hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
                       num_attention_heads=HEADS)
    if family.endswith("_moe"):
        config["text_config"].update(moe_intermediate_size=WIDTH, num_experts=8, num_experts_per_tok=2)
    if family.startswith("qwen3_5"):
        config["text_config"].update(head_dim=WIDTH // HEADS, linear_key_head_dim=WIDTH // HEADS,
                                     linear_value_head_dim=WIDTH // HEADS, linear_num_key_heads=HEADS // 2,
                                     linear_num_value_heads=HEADS)
    elif family in ("qwen3_vl", "qwen3_vl_moe"):
        config["text_config"].update(head_dim=WIDTH // HEADS)
        config["text_config"]["rope_scaling"]["mrope_section"] = [8, 4, 4]
    elif family.startswith("qwen") and family != "qwen2_audio":
        config["text_config"]["rope_scaling"]["mrope_section"] = [4, 6, 6]
    elif family == "llava_onevision":
        resize_tiles(directory, config, 336)
    elif family in ("llava", "internvl"):
        resize(directory, config, 336 if family == "llava" else 448)
    file.write_text(json.dumps(config))
    return directory


def resize(directory, config, side):
    """Pictures of the encoder, or tiles, are squares of this many pixels."""
    file = directory / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    if "crop_size" in settings:
        settings.update(size={"shortest_edge": side}, crop_size={"height": side, "width": side})
        config["vision_config"]["image_size"] = side
    else:
        settings["size"] = {"height": side, "width": side}
        config["vision_config"]["image_size"] = [side, side]
        processor = directory / "processor_config.json"
        processor.write_text(json.dumps({**json.loads(processor.read_text()), "image_seq_length": (side // 28) ** 2}))
        config["image_seq_length"] = (side // 28) ** 2
    file.write_text(json.dumps(settings))


def resize_tiles(directory, config, side):
    """Tiles of LLaVA-OneVision are squares of this many pixels, and canvases have as many tiles as before."""
    before = config["vision_config"]["image_size"]
    canvases = [[side * each // before for each in canvas] for canvas in config["image_grid_pinpoints"]]
    config["image_grid_pinpoints"] = canvases
    config["vision_config"]["image_size"] = side
    for name, more in (("preprocessor_config.json", {"size": {"height": side, "width": side},
                                                     "image_grid_pinpoints": canvases}),
                       ("processor_config.json", {"num_image_tokens": (side // 14) ** 2})):
        file = directory / name
        file.write_text(json.dumps({**json.loads(file.read_text()), **more}))


def log_uniform(rng, least, most):
    return math.exp(rng.uniform(math.log(least), math.log(most)))


def random_grid(rng, most):
    """Rows and columns of patches of a picture, as Qwen's processor rounds its sides."""
    patches, aspect = log_uniform(rng, LEAST_PATCHES, most), log_uniform(rng, 0.5, 2)
    rows = 2 * max(2, round(math.sqrt(patches / aspect) / 2))
    return rows, 2 * max(2, round(patches / rows / 2))


def held_out(rng, family, module, loads):
    """The lengths of a microbatch's sequences, and the function that makes its forward pass."""
    most = MOST[module]
    if module != "llm" and family in ONE_SIZE:
        lengths = [loads.limits.longest] * rng.randint(1, most // loads.limits.longest)
        return lengths, lambda model: loads.forward(model, lengths, torch.device("cpu"))
    room = log_uniform(rng, most / 16, most)
    if module == "llm":
        lengths = []
        longest = min(most // 2, loads.limits.longest)
        while sum(lengths) < room - LEAST_TOKENS:
            lengths.append(min(int(room) - sum(lengths), int(log_uniform(rng, LEAST_TOKENS, longest))))
        return lengths, lambda model: loads.forward(model, lengths, torch.device("cpu"))
    grids = [random_grid(rng, room)]
    while sum(rows * columns for rows, columns in grids) < 0.7 * room:
        grids.append(random_grid(rng, room / 2))
    return ([rows * columns for rows, columns in grids],
            lambda model: loads.forward_of_grids(model, grids, torch.device("cpu")))


def run_passes(skeleton, module, loads, how, microbatches, passes, runs):
    """Adds the seconds of each pass to the microbatches' runs."""
    built = BuiltModule(skeleton, module, loads, how)
    clock = clock_of_device()
    for i in range(passes):
        for (_lengths, prepare), own in zip(microbatches, runs):
            forward = prepare(built._model)  # noqa: SLF001 (no user calls a module with grids)
            if i == 0:
                backward(forward())  # allocates
            clock.overwrite_caches()
            start = clock.mark()
            outputs = forward()
            middle = clock.mark()
            clock.overwrite_caches()
            second = clock.mark()
            backward(outputs)
            own.append(clock.between(start, middle) + clock.between(second, clock.mark()))
    del built
    gc.collect()


def predicted(profile, module, lengths):
    done = subprocess.run([PROGRAM, "predict", "--profile", profile, "--json", f"--{module}",
                           ",".join(map(str, lengths))], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["modules"][module]["seconds"]


def compare(family, module, directory, arguments):
    """Errors of one module."""
    rng = random.Random(f"{family} {module}")
    skeleton = Skeleton(str(write_model(directory / f"{family}-{module}", family)))
    loads = module_loads(skeleton)[module]
    how = How(torch.device("cpu"), torch.float32, most_units=MOST[module])
    padded = module == "llm" and (family == "whisper" or family.startswith("qwen3_5"))
    microbatches = [held_out(rng, family, module, loads) for _ in range(arguments.microbatches)]
    runs = [[] for _each in microbatches]
    run_passes(skeleton, module, loads, how, microbatches, (arguments.passes + 1) // 2, runs)
    measured = measure(skeleton, module, loads, how, arguments.budget,
                       lambda line: print(f"{family} {line}", file=sys.stderr))
    run_passes(skeleton, module, loads, how, microbatches, (arguments.passes + 1) // 2, runs)
    profile = directory / f"{family}-{module}.json"
    write(document_of({module: measured.document}, "model_profile_error", "float32"), str(profile))
    # A decoder's samples are rows of equal length, as which `isocost serve --padded llm` predicts them.
    rows = [{"lengths": lengths, "measured_s": statistics.median(own), "runs_s": own,
             "predicted_s": predicted(profile, module, [max(lengths)] * len(lengths) if padded else lengths)}
            for (lengths, _prepare), own in zip(microbatches, runs)]
    misses = [row["predicted_s"] / row["measured_s"] - 1 for row in rows]
    sizes = sorted(map(abs, misses))
    return {"family": family, "module": module, "points": len(measured.document["points"]),
            "profile": json.loads(profile.read_text())["modules"][module], "microbatches": rows,
            "median": statistics.median(sizes), "mean": statistics.mean(sizes),
            "p95": sizes[math.ceil(0.95 * len(sizes)) - 1], "bias": statistics.median(misses),
            "spread": statistics.median((max(own) - min(own)) / 2 / statistics.median(own) for own in runs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each module (default: %(default)s)")
    parser.add_argument("--microbatches", type=int, default=24, help="of each module (default: %(default)s)")
    parser.add_argument("--passes", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--only", metavar="NAME", help="modules of one family, or of one name in all of them")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write results, with every microbatch")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    HostClock.mark = lambda _clock: time.process_time()
    results = []
    print(f"{'module':22}{'points':>8}{'median':>9}{'mean':>9}{'95 %':>9}{'bias':>9}{'passes differ':>15}")
    with tempfile.TemporaryDirectory(prefix="isocost-bench-") as temporary:
        for family, module in CONTENDERS:
            if arguments.only not in (None, family, module):
                continue
            row = compare(family, module, pathlib.Path(temporary), arguments)
            results.append(row)
            print(f"{family + ' ' + module:22}{row['points']:8}" + "".join(
                f"{row[key]:>+9.1%}" if key == "bias" else f"{row[key]:>9.1%}"
                for key in ("median", "mean", "p95", "bias")) + f"{row['spread']:>15.1%}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
