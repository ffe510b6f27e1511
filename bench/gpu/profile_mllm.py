"""Profiles an encoder and decoders of multimodal models on a CUDA GPU, compares predicted with measured seconds of
microbatches from real traces, and replays global batches under each policy, one virtual rank after another.

    python3 bench/gpu/profile_mllm.py                            # 7 minutes, both decoders
    python3 bench/gpu/profile_mllm.py --models qwen2.5-0.5b --budget 4m
    python3 bench/gpu/profile_mllm.py --budget 30m --global-batch-size 256 --json result.json --svg result.svg
    python3 bench/gpu/profile_mllm.py --trace documents --profiles build/profile_mllm.json   # replays another trace
    python3 bench/gpu/profile_mllm.py --device cpu --tiny        # the whole path with tiny shapes, no GPU

Needs torch 2.x, and the package isocost or a C++20 compiler. `isocost predict` and `isocost-lab balance` predict and
balance where the programs run; elsewhere a fitted form and LPT do, and the result says so. bench/gpu/README.md
describes what is measured.
"""

import argparse
import datetime
import gc
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import traces

SEEDS = {"weights": 1, "held_out": 2, "global_batches": 3}
# Weights by which the remaining time is shared among the phases still to come.
ENCODER_PROFILE = 5
PHASES = {"qwen2.5-0.5b": {"profile": 4, "held_out": 2, "replay": 5},
          "qwen2.5-7b": {"profile": 5, "held_out": 4, "replay": 8}}
FILLED_TOKENS = 16384  # of a held-out microbatch that is filled as under max_tokens


def say(line):
    print(line, file=sys.stderr, flush=True)


def fail(message):
    say(f"profile_mllm: {message}")
    sys.exit(2)


def seconds_of(text):
    """"90s", "7m", "420": seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([sm]?)", text)
    if not match or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a duration; give e.g. 7m or 420s")
    return float(match[1]) * (60 if match[2] == "m" else 1)


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return int(text)


def decoders(text):
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in PHASES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"there is no model '{', '.join(unknown)}'; there are {', '.join(PHASES)}")
    return list(dict.fromkeys(names))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=seconds_of, metavar="TIME",
                        help="time for everything but loading torch (default 7m; 20s with --tiny)")
    parser.add_argument("--models", type=decoders, metavar="NAME[,NAME]",
                        help=f"decoders, each beside the encoder (default {','.join(PHASES)}, or those of --profiles)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default cuda")
    parser.add_argument("--tiny", action="store_true",
                        help="a test of the path: a few small layers in float32, sequences a 64th as long")
    parser.add_argument("--trace", choices=(traces.MIXED, *traces.WEIGHTS), default=traces.MIXED,
                        help="samples of held-out microbatches and global batches (default %(default)s)")
    parser.add_argument("--profiles", metavar="FILE",
                        help="an earlier result of this machine, whose model profiles are taken instead of measured")
    parser.add_argument("--ranks", type=positive, default=8, help="virtual ranks (default 8)")
    parser.add_argument("--microbatches", type=positive, default=4, help="microbatches per rank and step (default 4)")
    parser.add_argument("--global-batch-size", type=positive, metavar="SAMPLES",
                        help="largest global batch; it is halved until one fits in the time, but not below two "
                        "samples per microbatch (default 256; 64 with --tiny)")
    parser.add_argument("--global-batches", type=positive, default=8,
                        help="most global batches that are replayed (default 8)")
    parser.add_argument("--program", metavar="FILE",
                        help="the isocost program, with isocost-lab beside it (default $ISOCOST_PROGRAM, then "
                        "build/release/isocost)")
    parser.add_argument("--json", default="build/profile_mllm.json", metavar="FILE", help="default %(default)s")
    parser.add_argument("--svg", default="build/profile_mllm.svg", metavar="FILE", help="default %(default)s")
    arguments = parser.parse_args()
    arguments.budget = arguments.budget or (20.0 if arguments.tiny else 420.0)
    arguments.global_batch_size = arguments.global_batch_size or (64 if arguments.tiny else 256)
    if arguments.global_batch_size < arguments.ranks * arguments.microbatches:
        parser.error(f"--global-batch-size {arguments.global_batch_size} is less than a sample for each of --ranks "
                     f"{arguments.ranks} x --microbatches {arguments.microbatches}")
    arguments.earlier, arguments.profiles = profiles_of(parser, arguments) if arguments.profiles else (None, {})
    arguments.models = arguments.models or list(arguments.profiles or PHASES)
    return arguments


def profiles_of(parser, arguments):
    """(result, {decoder: model profile}) of an earlier run with the same shapes."""
    try:
        earlier = json.loads(pathlib.Path(arguments.profiles).read_text(encoding="utf-8"))
        found = {name: model["profile"] for name, model in earlier["models"].items() if "profile" in model}
        tiny = earlier["tiny"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        parser.error(f"--profiles {arguments.profiles}: not a result of this program: {error!r}")
    if tiny != arguments.tiny:
        parser.error(f"--profiles {arguments.profiles}: has {'tiny' if tiny else 'full'} shapes, unlike this run")
    lacking = [name for name in arguments.models or [] if name not in found]
    if lacking or not found:
        parser.error(f"--profiles {arguments.profiles}: has no profile of {', '.join(lacking) or 'a decoder'}")
    return earlier, found


def load_torch(device):
    # Microbatches differ in size, which fragments the allocator's memory without this.
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    try:
        import torch
    except ImportError:
        fail("torch is not installed for this interpreter; any 2.x works: pip install torch")
    if device == "cuda" and not torch.cuda.is_available():
        fail("torch finds no CUDA GPU; run it on a machine with one, or try the path with --device cpu --tiny")
    return torch


class Schedule:
    """Shares the rest of the budget among the phases that are still to come."""

    def __init__(self, seconds, models, is_profiled):
        self.end = time.monotonic() + seconds
        self._weights = {("encoder", "profile"): ENCODER_PROFILE}
        self._weights.update({(model, phase): weight for model in models for phase, weight in PHASES[model].items()})
        if is_profiled:
            self._weights = {key: weight for key, weight in self._weights.items() if key[1] != "profile"}

    def begin(self, model, phase):
        """Returns the seconds for this phase."""
        total = sum(self._weights.values())
        weight = self._weights.pop((model, phase))
        return max(1.0, (self.end - time.monotonic()) * weight / total)

    def skip(self, model):
        self._weights = {key: weight for key, weight in self._weights.items() if key[0] != model}


class Session:
    """Measures on one device."""

    def __init__(self, arguments, torch):
        import models
        import pricing
        import profiling

        self.arguments, self.torch = arguments, torch
        self.models, self.pricing, self.profiling = models, pricing, profiling
        self.schedule = Schedule(arguments.budget, arguments.models, bool(arguments.earlier))
        self.kind = {"device": arguments.device, "dtype": torch.float32 if arguments.tiny else torch.bfloat16}
        self.dtype = str(self.kind["dtype"]).partition(".")[2]
        if arguments.device == "cuda":
            torch.cuda.init()  # isocost.profile_model measures by events from here on
        torch.manual_seed(SEEDS["weights"])
        self.isocost_profile, self.profiler = profiling.profiler()
        self.clock = profiling.clock_for(self.isocost_profile, arguments.device)
        self.check_earlier(arguments.earlier)
        self.samples = traces.read(arguments.tiny)
        self.program, self.no_program = pricing.find_program(arguments.program)
        self.lab = self.program and pricing.lab_beside(self.program)
        self.attention = {}
        self.encoder_profile = self.encoder_inputs = None

    def check_earlier(self, earlier):
        """Profiles of another machine would be taken for this one's."""
        for what, here in (("hardware", self.isocost_profile.hardware()), ("dtype", self.dtype),
                           ("versions", self.isocost_profile.versions())):
            if earlier and earlier.get(what) != here:
                fail(f"--profiles: {what} was {earlier.get(what)}, and is {here}")

    def build(self, name, kind, shape, key_heads, causal):
        """Returns a module of this kind and shape, with an attention that works here."""
        import packed_attention

        path, attend, refused = packed_attention.choose(self.kind["device"], self.kind["dtype"], shape.heads, key_heads,
                                                        shape.width // shape.heads, causal)
        self.attention[name] = {"path": path, "refused": refused}
        say(f"{name}: attention by {path}")
        return kind(shape, attend, **self.kind)

    def profile(self, model, module, prepare):
        lengths = traces.extent(self.samples, module)[:2]
        return self.profiling.profile(self.isocost_profile, self.clock, module, prepare, lengths,
                                      self.schedule.begin(model, "profile"), self.kind)

    def measure_encoder(self):
        models = self.models
        self.encoder_shape = models.TINY_ENCODER if self.arguments.tiny else models.ENCODER
        encoder = self.build("encoder", models.Encoder, self.encoder_shape, self.encoder_shape.heads, False)
        self.encoder_inputs = models.encoder_inputs(encoder)
        if not self.arguments.profiles:
            self.encoder_profile = self.profile("encoder", "vision", self.encoder_inputs)

    def measure(self, name):
        """Measures one decoder with the encoder: model profile, held-out microbatches, replay."""
        models = self.models
        shape = (models.TINY_DECODERS if self.arguments.tiny else models.DECODERS)[name]
        decoder = self.build(name, models.Decoder, shape, shape.key_heads, True)
        inputs = models.decoder_inputs(decoder)
        if self.arguments.profiles:
            profile = self.arguments.profiles[name]
        else:
            profile = self.profiling.merged({"vision": self.encoder_profile, "llm": self.profile(name, "llm", inputs)})
        with tempfile.TemporaryDirectory(prefix="isocost-bench-") as directory:
            file = pathlib.Path(directory) / "profile.json"
            self.isocost_profile.write(profile, str(file))
            return {"profile": profile, **self.compare(name, shape, inputs, profile, file)}

    def bench(self, shape, inputs, profile, file):
        import replay

        shapes = {"vision": self.encoder_shape, "llm": shape}
        throughputs = {module: self.pricing.OneThroughput(profile["modules"][module]["points"], own.flop,
                                                          traces.extent(self.samples, module)[2])
                       for module, own in shapes.items()}
        prices = self.pricing.ProgramPrices(self.program, file) if self.program else self.pricing.FormPrices(profile)
        return replay.Bench(self.isocost_profile, self.clock, {"vision": self.encoder_inputs, "llm": inputs}, prices,
                            throughputs)

    def compare(self, name, shape, inputs, profile, file):
        import replay

        bench = self.bench(shape, inputs, profile, file)
        mixture = traces.Mixture(self.samples, SEEDS["held_out"], self.arguments.trace)
        tokens = FILLED_TOKENS // traces.TINY if self.arguments.tiny else FILLED_TOKENS
        held_out, filled = replay.held_out(bench, mixture, tokens,
                                           time.monotonic() + self.schedule.begin(name, "held_out"))
        say(f"{name}: {len(held_out['llm'])} held-out microbatches of few samples, {len(filled['llm'])} filled ones")
        mixture = traces.Mixture(self.samples, SEEDS["global_batches"], self.arguments.trace)
        mean_s = statistics.fmean(replay.sample_costs(bench, mixture.draw(64)))
        seconds = self.schedule.begin(name, "replay")
        end = time.monotonic() + seconds
        size = replay.affordable(mean_s, seconds, self.arguments.global_batch_size,
                                 self.arguments.ranks * self.arguments.microbatches, self.arguments.global_batches,
                                 math.inf if self.arguments.tiny else replay.OVERRUN)
        steps, replayed, samples = replay.replay(bench, mixture, size, self.arguments.ranks,
                                                 self.arguments.microbatches, self.lab, end,
                                                 lambda line: say(f"{name}: {line}"))
        return {"one_throughput": {module: {"length": own.length, "count": own.count, "flop_per_s": 3 * own.flop_per_s}
                                   for module, own in bench.throughputs.items()},
                "held_out": {module: replay.errors(own) for module, own in held_out.items()},
                "filled": {module: replay.errors(own) for module, own in filled.items()},
                "replayed": {module: replay.errors(own) for module, own in replayed.items()},
                "comparisons": {"held_out": held_out, "filled": filled, "replayed": replayed},
                "global_batch_size": samples, "steps": steps, "summary": summarize(steps)}

    def skipped(self, error):
        """The result of a model that is left out for lack of memory or time; raises any other error again."""
        import replay

        if isinstance(error, replay.TooSlow):
            return {"skipped": str(error)}
        if "out of memory" not in str(error) and not self.isocost_profile.is_out_of_memory(error):
            raise error
        return {"skipped": f"out of memory: {str(error).strip().splitlines()[0][:200]}"}

    def run(self):
        self.measure_encoder()
        found = {}
        for name in self.arguments.models:
            try:
                found[name] = self.measure(name)
            except (MemoryError, RuntimeError, ValueError) as error:
                found[name] = self.skipped(error)
                say(f"{name}: {found[name]['skipped']}")
                self.schedule.skip(name)
            gc.collect()
            if self.arguments.device == "cuda":
                self.torch.cuda.empty_cache()
        return found

    def describe(self):
        import plans

        arguments = self.arguments
        hardware, versions = self.isocost_profile.hardware(), self.isocost_profile.versions()
        return {"version": 3, "source": "bench/gpu/profile_mllm.py", "tiny": arguments.tiny,
                "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
                "command": sys.argv[1:], "commit": commit(), "hardware": hardware, "dtype": self.dtype,
                "versions": versions, "budget_s": arguments.budget, "seeds": SEEDS, "profiler": self.profiler,
                "pricing": (self.pricing.ProgramPrices if self.program else self.pricing.FormPrices).name,
                "balancing": plans.method(self.lab), "no_program": self.no_program, "attention": self.attention,
                "activation_checkpointing": "every layer, and the loss",
                "trace": arguments.trace, "profiles_of": arguments.earlier and arguments.earlier["date"],
                "ranks": arguments.ranks, "microbatches": arguments.microbatches}


def commit():
    """The commit of the checkout, with "-dirty" after it if files differ; None without git or its history."""
    try:
        done = subprocess.run(["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty",
                               "--abbrev=40", "--exclude=*"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def summarize(steps):
    """Medians and ranges over the global batches."""
    import plans

    summary = {policy: {key: spread([step[policy][key] for step in steps])
                        for key in ("step_s", "idle_fraction", "predicted_step_s", "predicted_idle_fraction")}
               for policy in plans.POLICIES}
    summary["speedup"] = {policy: spread([step["speedup"][policy] for step in steps]) for policy in steps[0]["speedup"]}
    return summary


def write(text, file):
    file = pathlib.Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    say(f"wrote {file}")


def main():
    arguments = parse()
    torch = load_torch(arguments.device)
    import picture
    import report

    start = time.monotonic()
    session = Session(arguments, torch)
    try:
        models = session.run()
    except (MemoryError, RuntimeError, ValueError) as error:
        fail(f"the encoder does not fit: {session.skipped(error)['skipped']}")
    result = {**session.describe(), "models": models, "wall_s": time.monotonic() - start}
    print(report.table(result))
    write(json.dumps(result, indent=1) + "\n", arguments.json)
    write(picture.draw(result), arguments.svg)
    if all("skipped" in own for own in models.values()):
        fail("every decoder was left out; see above")


if __name__ == "__main__":
    main()
