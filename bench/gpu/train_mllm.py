"""Trains a model of Qwen2.5-VL's 3B shape on pictures, clips and conversations: does it wait for data, and how much
memory does a microbatch take? And one of Qwen3.5's kind: what do packed rows save?

    python3 bench/gpu/train_mllm.py                                    # about three minutes, with 40 GiB of the device
    python3 bench/gpu/train_mllm.py --seconds 60 --json docs/benchmarks/NAME.json
    python3 bench/gpu/train_mllm.py --family qwen3_5 --parts isocost,padded
    python3 bench/gpu/train_mllm.py --device cpu --tiny                # the path, without a GPU

Random weights in bfloat16, gradients of every layer checkpointed, AdamW; microbatches under --max-tokens. The ways to
get them take turns: isocost.DataLoader; the same microbatches, kept on the device; isocost.DataLoader with padded rows;
torch's DataLoader with the model's own processor. bench/gpu/README.md says what the columns mean.
"""

import argparse
import collections
import contextlib
import gc
import importlib.util
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

import conversations

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ISOCOST_PROGRAM", str(ROOT / "build/release/isocost"))
WAYS = ("isocost", "kept", "padded", "processor")
DEFAULT_PARTS = ("memory", "isocost", "kept", "processor")
GLOBAL_BATCH = 16
WORKERS = 8  # of torch's DataLoader
WARM_STEPS = 2
MEMORY_LIMITS = ("12GiB", "24GiB", "40GiB")
KEPT_BYTES = 20 << 30  # microbatches on the device, for the way without a loader
# Dense bfloat16 FLOP/s, from NVIDIA's data sheets.
PEAK_FLOP_PER_S = {"H100": 989e12, "H200": 989e12, "A100": 312e12}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="a tiny model on tiny pictures: a test of the path")
    parser.add_argument("--family", choices=tuple(conversations.SHAPES), default="qwen2_5_vl",
                        help="of the model (default: %(default)s); packed rows of qwen3_5 need flash-linear-attention "
                             "and causal-conv1d")
    parser.add_argument("--seconds", type=float, default=30, help="of training, in each way")
    parser.add_argument("--profile-seconds", type=float, default=20, help="for the model profile of the memory's part")
    parser.add_argument("--max-tokens", type=int, default=8192, help="of a microbatch")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(DEFAULT_PARTS),
                        metavar="PART[,PART]",
                        help="of memory, isocost, kept (needs isocost), padded, processor; default: "
                             f"{','.join(DEFAULT_PARTS)}")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build/train_mllm.json")
    return parser.parse_args()


# The model.

class Model:
    """Made from the directory's config.json, with random weights on the device."""

    def __init__(self, directory, device, checkpointed):
        import torch
        import transformers
        import varlen

        config = transformers.AutoConfig.from_pretrained(directory)
        self.config, self.device = config, device
        self.dtype = torch.bfloat16 if device == "cuda" else torch.float32
        text, vision = config.text_config, config.vision_config
        self.attention = {
            "llm": varlen.path_name(device, self.dtype, text.num_attention_heads, text.num_key_value_heads,
                                    text.hidden_size // text.num_attention_heads, True),
            "vision": varlen.path_name(device, self.dtype, vision.num_heads, vision.num_heads,
                                       vision.hidden_size // vision.num_heads, False)}
        with torch.device(device):
            torch.set_default_dtype(self.dtype)
            try:
                self.module = transformers.AutoModelForImageTextToText.from_config(
                    config, attn_implementation=varlen.NAME)
            finally:
                torch.set_default_dtype(torch.float32)
        self.module.train()
        if checkpointed:
            self.module.gradient_checkpointing_enable({"use_reentrant": False})

    @property
    def parameters(self):
        return sum(parameter.numel() for parameter in self.module.parameters())

    def pads(self):
        """The language model attends by PyTorch's own kernel under a mask; the encoder continues as before."""
        self.module.config.text_config._attn_implementation = "sdpa"  # noqa: SLF001 (transformers' own setter looks the
        # encoder's name up among installed packages)

    def flop(self, load):
        """FLOP of a forward and a backward pass, without what checkpointing computes again; of Qwen2.5-VL."""
        text, vision = self.config.text_config, self.config.vision_config
        key_width = text.hidden_size // text.num_attention_heads * text.num_key_value_heads
        token = text.num_hidden_layers * (4 * text.hidden_size * (text.hidden_size + key_width)
                                          + 6 * text.hidden_size * text.intermediate_size)
        token += 2 * text.hidden_size * text.vocab_size
        patch = vision.depth * (8 * vision.hidden_size**2 + 6 * vision.hidden_size * vision.intermediate_size)
        whole = len(vision.fullatt_block_indexes)
        window = (vision.window_size // vision.patch_size) ** 2
        attention = 2 * text.num_hidden_layers * text.hidden_size * sum(n * n for n in load["llm"])
        attention += 4 * vision.hidden_size * sum(whole * n * n + (vision.depth - whole) * n * min(n, window)
                                                  for n in load["vision"])
        return 3 * (token * sum(load["llm"]) + patch * sum(load["vision"]) + attention)


def load_of(arguments):
    """Lengths of a microbatch's sequences by module. Waits for the device."""
    grids = [row for name in ("image_grid_thw", "video_grid_thw") if name in arguments
             for row in arguments[name].tolist()]
    positions = arguments["position_ids"][0].flatten()
    offsets = [*(positions == 0).nonzero().flatten().tolist(), len(positions)]
    return {"vision": [rows * columns for times, rows, columns in grids for _ in range(times)],
            "llm": [end - begin for begin, end in itertools.pairwise(offsets)]}


# Training.

class Clock:
    """Measures when the device reaches a point of its stream; on a CPU, reads the host's clock."""

    def __init__(self, device):
        self.is_cuda = device == "cuda"

    def mark(self):
        if not self.is_cuda:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start, end):
        return start.elapsed_time(end) / 1e3 if self.is_cuda else end - start

    def synchronize(self):
        if self.is_cuda:
            import torch

            torch.cuda.synchronize()


def train(model, optimizer, microbatches, clock, seconds, timed=None):
    """Trains until `seconds` are over. microbatches: yields (arguments, tokens, whether they end a step). The first
    steps are left out. Returns, of each step: its seconds, those that the loop was blocked for data, those that the
    device was idle between microbatches, and its tokens."""
    steps, end = [], None
    step = {"blocked_s": 0.0, "tokens": 0}
    gaps, done = [], None
    clock.synchronize()
    begun = time.perf_counter()
    source = iter(microbatches)
    while end is None or len(steps) == WARM_STEPS or time.perf_counter() < end:
        asked = time.perf_counter()
        taken = next(source, None)
        if taken is None:
            break
        microbatch, tokens, last_of_step = taken
        step["blocked_s"] += time.perf_counter() - asked
        if done is not None:
            gaps.append((done, clock.mark()))
        with timed(microbatch) if timed else contextlib.nullcontext():
            loss = model.module(**microbatch).loss
            loss.backward()
        step["tokens"] += tokens
        if last_of_step:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        done = clock.mark()
        del loss, microbatch, taken
        if not last_of_step:
            continue
        clock.synchronize()
        now = time.perf_counter()
        idle = sum(clock.between(*gap) for gap in gaps)
        steps.append({**step, "seconds": now - begun, "idle_s": idle})
        begun, gaps, step = now, [], {"blocked_s": 0.0, "tokens": 0}
        if len(steps) == WARM_STEPS:
            end = now + seconds
    return steps[WARM_STEPS:]


def summary(steps):
    seconds = sum(step["seconds"] for step in steps)

    def share(name):
        return sum(step[name] for step in steps) / seconds

    each = sorted(step["seconds"] for step in steps)
    rates = sorted(step["tokens"] / step["seconds"] for step in steps)
    return {"steps": len(steps), "step_s": {"median": statistics.median(each), "least": each[0], "most": each[-1]},
            "tokens_per_s": sum(step["tokens"] for step in steps) / seconds,
            "step_tokens_per_s": {"least": rates[0], "most": rates[-1]},
            "blocked_share": share("blocked_s"), "idle_share": share("idle_s")}


class Kept:
    """Hands on the loader's microbatches, and keeps whole steps of the first ones while they fit."""

    def __init__(self, loader):
        self.loader, self.kept, self.left = loader, [], KEPT_BYTES

    def __iter__(self):
        for microbatch in self.loader:
            yield microbatch, microbatch.tokens, microbatch.last_of_step
            size = sum(value.nbytes for value in microbatch.values() if hasattr(value, "nbytes"))
            if self.left is not None and size <= self.left:
                self.left -= size
                self.kept.append((dict(microbatch), microbatch.tokens, microbatch.last_of_step))
            else:
                self.left = None

    def whole_steps(self):
        ends = [i for i, (_, _, last) in enumerate(self.kept) if last]
        return self.kept[:ends[-1] + 1] if ends else []


def mfu(model, kept, steps, device_name):
    """FLOP of the kept steps over those that the device can do in the time they took, or None for an unknown device."""
    peak = next((flop for name, flop in PEAK_FLOP_PER_S.items() if name in device_name), None)
    tokens = sum(tokens for _, tokens, _ in kept)
    flop = sum(model.flop(load_of(microbatch)) for microbatch, _, _ in kept)
    seconds = sum(step["seconds"] for step in steps) / sum(step["tokens"] for step in steps) * tokens
    return None if peak is None else flop / seconds / peak


def ways(settings, made, folder):
    """The ways to train. Returns what was seen of each."""
    import torch

    _, _, _, directory = made
    clock = Clock(settings.device)
    begun = time.perf_counter()
    model = Model(directory, settings.device, checkpointed=True)
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-6, **({"fused": True} if clock.is_cuda else {}))
    clock.synchronize()
    say(f"{model.parameters / 1e9:.2f} billion parameters in {time.perf_counter() - begun:.1f} s, attention "
        f"{model.attention}")
    found = {"parameters": model.parameters, "attention": model.attention}
    kept = []

    def way(name, title, measure):
        """Others continue if one fails."""
        if name not in settings.parts:
            return
        try:
            found[name] = measure()
            say_way(title, found[name])
        except Exception:
            found[name] = {"failed": traceback.format_exc()}
            say(traceback.format_exc())

    def packed():
        own, microbatches = by_isocost(settings, model, optimizer, made, clock, "packed")
        kept.extend(microbatches)
        return own

    def repeated():
        steps = train(model, optimizer, itertools.cycle(kept), clock, settings.seconds)
        return {**summary(steps), "microbatches": len(kept)}

    def padded():
        model.pads()
        return by_isocost(settings, model, optimizer, made, clock, "padded")[0]

    way("isocost", "isocost.DataLoader", packed)
    if kept:
        way("kept", "the same microbatches, kept on the device", repeated)
    kept.clear()
    gc.collect()
    way("padded", "isocost.DataLoader, padded rows", padded)
    samples = found.get("isocost", {}).get("samples_a_microbatch", 3)
    way("processor", "torch's DataLoader with the model's own processor",
        lambda: by_processor(settings, model, optimizer, made, samples, clock))
    return found


def by_isocost(settings, model, optimizer, made, clock, batching):
    """Returns what was seen, and the microbatches that were kept."""
    import torch

    import isocost

    _, _, shards, directory = made
    begun = time.perf_counter()
    with isocost.DataLoader(shards, model=str(directory), batching=batching, global_batch_size=GLOBAL_BATCH,
                            endless=True, max_tokens=settings.max_tokens, device=settings.device) as loader:
        kept = Kept(loader)
        microbatches = iter(kept)
        first = next(microbatches)
        clock.synchronize()
        first_s = time.perf_counter() - begun
        reset_peak(clock)
        steps = train(model, optimizer, itertools.chain([first], microbatches), clock, settings.seconds,
                      timed=lambda arguments: loader.timed(arguments))
    whole = kept.whole_steps()
    found = {**summary(steps), "peak_bytes": peak(clock), "first_microbatch_s": first_s,
             "samples_a_microbatch": max(1, round(GLOBAL_BATCH * sum(last for _, _, last in whole) / len(whole)))}
    if clock.is_cuda and settings.family == "qwen2_5_vl":
        found["mfu"] = mfu(model, whole, steps, torch.cuda.get_device_name())
    return found, whole


def by_processor(settings, model, optimizer, made, samples, clock):
    import processor_loader

    records, media, _, directory = made
    model.pads()
    begun = time.perf_counter()
    per_step = max(1, GLOBAL_BATCH // samples)
    source = processor_loader.microbatches(records, media, directory, samples, WORKERS if not settings.tiny else 2,
                                           settings.device)
    first = next(source)
    clock.synchronize()
    first_s = time.perf_counter() - begun
    stepped = (({**arguments, "use_cache": False}, tokens, i % per_step == per_step - 1)
               for i, (arguments, tokens) in enumerate(itertools.chain([first], source)))
    reset_peak(clock)
    steps = train(model, optimizer, stepped, clock, settings.seconds)
    return {**summary(steps), "peak_bytes": peak(clock), "samples_a_microbatch": samples,
            "microbatches_a_step": per_step, "first_microbatch_s": first_s}


def reset_peak(clock):
    if clock.is_cuda:
        import torch

        torch.cuda.reset_peak_memory_stats()


def peak(clock):
    if not clock.is_cuda:
        return None
    import torch

    return torch.cuda.max_memory_allocated()


# Memory.

def memory(settings, made, folder):
    """Compares predicted with measured peak memory of microbatches without checkpointing, under several limits."""
    import varlen

    import isocost
    from isocost.model_profile import Settings, profile_directory

    _, _, shards, directory = made
    clock = Clock(settings.device)
    profile = folder / "profile.json"
    begun = time.perf_counter()
    if not settings.tiny:
        profile_directory(Settings(str(directory), str(profile), settings.profile_seconds, "bfloat16", settings.device,
                                   varlen.NAME, most_units={"vision": 4 * 6144, "llm": 6144}), say)
    else:
        profile_directory(Settings(str(directory), str(profile), 1, "float32", settings.device, varlen.NAME,
                                   most_units={"vision": 512, "llm": 256}), say)
    found = {"profile_s": time.perf_counter() - begun, "microbatches": []}
    say(f"model profile in {found['profile_s']:.1f} s")
    model = Model(directory, settings.device, checkpointed=False)
    for limit in MEMORY_LIMITS if not settings.tiny else ("24MiB",):
        with isocost.DataLoader(shards, model=str(directory), global_batch_size=GLOBAL_BATCH, max_memory=limit,
                                node=isocost.NodeOptions(max_bad_samples="100%", profile=str(profile)),
                                device=settings.device) as loader:
            for microbatch in itertools.islice(loader, 4):
                own = {"limit": limit, **measured_peak(model, microbatch, clock, profile)}
                found["microbatches"].append(own)
                say(f"{limit}: {own['patches']} patches, {own['tokens']} tokens: predicted "
                    f"{own['predicted_bytes'] / 2**30:.2f} GiB {own['predicted_by_module']}, measured "
                    f"{(own['measured_bytes'] or 0) / 2**30:.2f} GiB")
    for name, key in (("predicted", "predicted_bytes"), ("counted by max_memory", "limited_bytes")):
        errors = [own[key] / own["measured_bytes"] - 1 for own in found["microbatches"] if own["measured_bytes"]]
        if errors:
            middle = statistics.median(errors)
            found[f"error_of_{key}"] = {"median": middle, "least": min(errors), "most": max(errors)}
            say(f"memory: {name} over measured peak, median {middle:+.1%} ({min(errors):+.1%} to {max(errors):+.1%})")
    return found


def measured_peak(model, microbatch, clock, profile):
    """Peak bytes of a forward and a backward pass, above those of the model at rest with its gradients."""
    load = load_of(microbatch)
    tensors = sum(value.nbytes for value in microbatch.values() if hasattr(value, "nbytes"))
    model.module(**microbatch).loss.backward()  # Gradients exist from now on.
    clock.synchronize()
    base = 0
    if clock.is_cuda:
        import torch

        torch.cuda.reset_peak_memory_stats()
        base = torch.cuda.memory_allocated() - tensors
    model.module(**microbatch).loss.backward()
    clock.synchronize()
    given = [f"--{module}=" + ",".join(f"{length}x{count}" for length, count in collections.Counter(own).items())
             for module, own in load.items() if own]
    told = json.loads(subprocess.run([PROGRAM, "predict", "--profile", profile, "--json", *given], check=True,
                                     capture_output=True, text=True).stdout)
    activations = {name: own["bytes"]["activations"] for name, own in told["modules"].items()}
    limited = sum(own["bytes"]["activations_of_max_memory"] for own in told["modules"].values())
    return {"patches": sum(load["vision"]), "tokens": sum(load["llm"]), "tensor_bytes": tensors,
            "predicted_by_module": activations, "predicted_bytes": sum(activations.values()) + tensors,
            "limited_bytes": limited + tensors,
            "measured_bytes": peak(clock) - base if clock.is_cuda else None}


# Report.

def say(line):
    print(line, flush=True)


def say_way(name, own):
    step = own["step_s"]
    more = [f"{own['tokens_per_s']:,.0f} tokens/s", f"blocked for data {own['blocked_share']:.2%} of the time",
            f"device idle between microbatches {own['idle_share']:.2%}"]
    if own.get("mfu"):
        more.append(f"MFU {own['mfu']:.1%}")
    if own.get("peak_bytes"):
        more.append(f"peak {own['peak_bytes'] / 2**30:.1f} GiB")
    say(f"{name}: {own['steps']} steps of {step['median']:.3f} s ({step['least']:.3f} to {step['most']:.3f}), "
        + ", ".join(more))


def main():
    settings = arguments()
    if settings.tiny:
        settings.max_tokens, settings.samples = 1024, 96
    import torch
    import transformers
    import varlen

    device_name = torch.cuda.get_device_name() if settings.device == "cuda" else "cpu"
    result = {"hardware": device_name, "date": time.strftime("%Y-%m-%d"), "tiny": settings.tiny,
              "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
              "family": settings.family, "clips": importlib.util.find_spec("cv2") is not None,
              "max_tokens": settings.max_tokens, "global_batch_size": GLOBAL_BATCH}
    failed = False
    varlen.register()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        begun = time.perf_counter()
        made = conversations.make(folder, PROGRAM, settings.samples, settings.family, settings.tiny)
        say(f"{settings.samples} conversations made in {time.perf_counter() - begun:.1f} s")
        for part, wanted in ((memory, ["memory"]), (ways, WAYS)):
            if not set(wanted) & set(settings.parts):
                continue
            try:
                result[part.__name__] = part(settings, made, folder)
                failed |= any("failed" in own for own in result[part.__name__].values() if isinstance(own, dict))
            except Exception:
                failed = True
                result[part.__name__] = {"failed": traceback.format_exc()}
                say(traceback.format_exc())
            settings.json.parent.mkdir(parents=True, exist_ok=True)
            settings.json.write_text(json.dumps(result, indent=1) + "\n")
            gc.collect()
            if settings.device == "cuda":
                torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
