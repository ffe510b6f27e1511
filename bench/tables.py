"""Prints the tables of the documentation whose figures depend on no clock: simulated steps, and how near plans come to
their bounds. Beside them the pages have columns that were measured.

    python3 bench/tables.py NAME [--all] [--build DIR]

NAME is one of simulated, decoupled, layouts, qwen2_5_vl, partition, many-ranks and quality. --all adds the rows that
take minutes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TRACES = [str(HERE / "quality/data" / f"{name}.csv") for name in ("documents", "videos", "photos", "speech")]
MIXED = ("--trace", ",".join(TRACES), "--weights", "2,2,1,1")
DOCUMENTS = ("--trace", TRACES[0])
# Data, schedule, samples per step and M, then the flags.
STEPS = (("mixed", "1f1b", "512, 16", MIXED, ()),
         ("mixed", "1f1b", "2,048, 64", MIXED, ("--global-batch-size", "2048", "--microbatches", "64")),
         ("mixed", "zb-h1", "512, 16", MIXED, ()),
         ("mixed", "interleaved", "512, 18", MIXED, ()),
         ("mixed", "gpipe", "512, 16", MIXED, ()),
         ("documents", "1f1b", "512, 16", DOCUMENTS, ()))
# GPUs, samples per step, batches that the search has not seen, and whether the search takes long.
SEARCHES = ((16, 512, 8, False), (64, 512, 8, False), (128, 512, 8, True), (1024, 4096, 2, True))
QWEN_SEARCHES = ((64, 512, 8, False), (1024, 4096, 2, True))
QWEN_FLAGS = ((), ("--recompute", "auto", "--shard-weights"), ("--recompute", "auto", "--emit", "fsdp2"))
POLICIES = ("in-order", "lpt", "cost")
DECOUPLED_NOTES = {"1x1x16+2x3x8": ", 32", "1x2x8+4x3x4": ", 32",
                   "1x1x16+2x4x6": ", 32", "1x1x8+2x7x4": ", 16, no caps", "1x1x8+2x7x4-m32": ", 32, no caps"}


def run(build, program, *words):
    done = subprocess.run([pathlib.Path(build) / program, *words], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def benchmarks(build, program, chosen):
    """The results of a benchmark of Google Benchmark. Their counters need a single run."""
    return run(build, f"bench/{program}", f"--benchmark_filter={chosen}", "--benchmark_min_time=0.001",
               "--benchmark_format=json")["benchmarks"]


def simulated(build, _):
    yield ("data", "schedule", "samples per step, M", *POLICIES, "in-order / cost", "lpt / cost", "idle fraction",
           "activations, GiB")
    for data, schedule, size, trace, flags in STEPS:
        policies = run(build, "isocost-lab", "simulate", *trace, "--steps", "10", "--schedule", schedule, *flags,
                       "--json")["policies"]
        steps = {name: policies[name]["step_s"] for name in POLICIES}
        idle = " → ".join(f"{100 * policies[name]['idle_fraction']:.1f}" for name in POLICIES)
        memory = ", ".join(f"{policies[name]['peak_activation_gib']:.0f}" for name in POLICIES)
        yield (data, schedule, size, *(f"{steps[name]:.2f}" for name in POLICIES),
               *(f"{steps[name] / steps['cost']:.2f}" for name in POLICIES[:2]), f"{idle} %", memory)


def decoupled(build, _):
    yield ("layout (encoder + LLM, microbatches)", "0 ahead", "1", "2", "best", "decoupled over the bound",
           "decoupled step, s")
    for result in benchmarks(build, "pipeline_bench", "decouple.*/8000"):
        name = result["name"].split("/")[1]
        factors = (f"{result[key]:.3f}" if key in result else "-" for key in ("over_0", "over_1", "over_2"))
        yield (name.removesuffix("-m32").replace("+", " + ") + DECOUPLED_NOTES.get(name, ", 16"), *factors,
               f"{result['best_over']:.3f}", f"{result['over_bound']:.3f}",
               f"{result['step_s']:.1f}")


def degrees(layout):
    encoder, llm = ("x".join(str(layout[module][key]) for key in ("tensor", "pipeline", "data"))
                    for module in ("encoder", "llm"))
    place = f"both {llm}" if layout["encoder_place"] == "llm" else f"encoder {encoder}, llm {llm}"
    return f"{place}, {layout['microbatches']} microbatch{'es' if layout['microbatches'] > 1 else ''}"


def layouts(build, everything):
    yield "GPUs", "samples per step", "best", "alike", "mean-shape rule", "the best layout (tensor x pipeline x data)"
    for gpus, samples, fresh, slow in SEARCHES:
        if not slow or everything:
            found = run(build, "isocost", "plan", *MIXED, "--gpus", str(gpus), "--global-batch-size", str(samples),
                        "--fresh", str(fresh), "--output", "/dev/null", "--force", "--json")
            steps = (f"{found['fresh'][name]:.2f}" for name in ("best", "alike", "mean_shape"))
            yield f"{gpus:,}", f"{samples:,}", *steps, degrees(found["best"][0]["layout"])


def how_trained(layout):
    """A layout's words on its modules beside their degrees."""
    def said(keys):
        words = [f"sharded by {keys['shard']}"] if "shard" in keys else []
        words += ["stays gathered"] if not keys.get("reshard", True) else []
        return ", ".join(words + ([f"recomputation {keys['recompute']}"] if "recompute" in keys else []))

    encoder, llm = said(layout["encoder"]), said(layout["llm"])
    if encoder == llm:
        return f"both {llm}" if llm else "-"
    return "; ".join(f"{name} {words}" for name, words in (("encoder", encoder), ("LLM", llm)) if words)


def qwen2_5_vl(build, everything):
    """Qwen2.5-VL-7B by FLOP, on the samples of docs/benchmarks/paper.md's mixture by its own recipe."""
    sys.path.insert(0, str(HERE / "paper"))
    import jobs
    import models

    row = jobs.Row("qwen2_5_vl", "Qwen2.5-VL-7B", models.QWEN2_5_VIT, "Qwen2.5-7B", "qwen2_5_vl", "mixture")
    yield "GPUs", "samples per step", "flags", "best", "alike", "mean-shape rule", "GiB", "the best layout", \
        "its modules"
    with tempfile.TemporaryDirectory() as folder:
        data = jobs.Simulator(pathlib.Path(build) / "bench/paper/paper_plans", pathlib.Path(folder)).data_profile(row)
        profile = pathlib.Path(folder) / "profile.json"
        profile.write_text(json.dumps(row.profile()))
        for gpus, samples, fresh, slow in QWEN_SEARCHES:
            for flags in QWEN_FLAGS if everything or not slow else ():
                found = run(build, "isocost", "plan", "--data-profile", data, "--profile", profile, "--gpus", str(gpus),
                            "--global-batch-size", str(samples), "--fresh", str(fresh), "--output",
                            pathlib.Path(folder) / "layout.json", "--force", "--json", *flags)
                steps = (f"{found['fresh'][name]:.2f}" if name in found["fresh"] else "-"
                         for name in ("best", "alike", "mean_shape"))
                memory = found["best"][0]["memory_bytes"] / 2**30
                layout = found["best"][0]["layout"]
                yield (f"{gpus:,}", f"{samples:,}", f"`{' '.join(flags)}`" if flags else "none", *steps,
                       f"{memory:.0f}", degrees(layout), how_trained(layout))


def percent(value):
    """A gap, which the benchmark prints in percent, with three digits and at most four decimals."""
    return "0" if not value else f"{value:#.3g} %" if value >= 0.01 else f"{value:.4f} %"


def partition(build, everything):
    yield "data", "objective", "items → bins", "gap, mean", "worst", "proved optimal"
    for result in benchmarks(build, "balancer_bench", "512/|2048/|16384/" if everything else "512/|2048/"):
        name, samples, ranks, microbatches = re.fullmatch(
            r"plan/(\w+)/(?:samples:)?(\d+)/(?:ranks:)?(\d+)/(?:microbatches:)?(\d+)", result["name"]).groups()
        data, objective, *effort = name.split("_")
        yield (f"{data}, {effort[1]} evaluations per bin" if effort else data, objective,
               f"{samples} → {int(ranks) * int(microbatches)}", percent(result["gap_%"]),
               percent(result["max_gap_%"]), f"{result['optimal_of_10']:.0f} of 10")


def many_ranks(build, _):
    yield "data", "objective", "4,096 items → bins", "gap, mean", "worst"
    for result in benchmarks(build, "balancer_bench", "4096"):
        data, objective, ranks, microbatches = re.fullmatch(
            r"plan/(\w+)_(\w+)/samples:4096/ranks:(\d+)/microbatches:(\d+)", result["name"]).groups()
        if objective == "microbatch":
            bins = f"{int(ranks) * int(microbatches):,}"
        else:
            bins = f"{int(ranks):,}" + (f" × {microbatches}" if microbatches != "1" else "")
        yield data, objective, bins, percent(result["gap_%"]), percent(result["max_gap_%"])


def quality(*_):
    """From the record, which the test balancer_quality compares with the program."""
    yield "case: gap to the bound (idle fraction), largest microbatch", "in-order", "LPT by LLM cost", "cost"
    for case, policies in json.loads((HERE / "quality/baseline.json").read_text()).items():
        cells = [policies[name] for name in POLICIES if name in policies]
        if all("largest_microbatch_bytes" in cell for cell in cells) and cells:
            yield case, *(f"{100 * cell['gap']:.2f} % ({100 * cell['idle_fraction']:.2f} %) "
                          f"{cell['largest_microbatch_bytes'] / 1e6:.0f} MB" for cell in cells)


TABLES = {"simulated": simulated, "decoupled": decoupled, "layouts": layouts, "qwen2_5_vl": qwen2_5_vl,
          "partition": partition, "many-ranks": many_ranks, "quality": quality}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=TABLES)
    parser.add_argument("--all", action="store_true", help="also the rows that take minutes")
    parser.add_argument("--build", default="build/release", help="the build tree [build/release]")
    arguments = parser.parse_args()
    for number, row in enumerate(TABLES[arguments.name](arguments.build, arguments.all)):
        print("| " + " | ".join(row) + " |", flush=True)
        if number == 0:
            print("|---" * len(row) + "|")


if __name__ == "__main__":
    main()
