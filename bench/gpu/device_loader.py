"""Checks on a CUDA device what the tests check with stand-ins: tensors, copies, registrations and measured seconds.

    python3 bench/gpu/device_loader.py                            # about a minute
    python3 bench/gpu/device_loader.py --only tensors,copies --json build/device_loader.json
    python3 bench/gpu/device_loader.py --device cpu               # the path, without a GPU

Needs torch 2.x and the package isocost; with the package tokenizers also microbatches of a Qwen2-VL directory. Prints
a line for each check, and ends with 1 if one failed. bench/gpu/README.md describes the checks.
"""

import argparse
import ctypes
import gc
import io
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import wave
import zlib

import limits

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ISOCOST_PROGRAM", str(ROOT / "build/release/isocost"))
SAMPLES = 96
GLOBAL_BATCH = 16
SIZES = {"cuda": (2048, 4096), "cpu": (64, 64)}  # of the measured layers: width, and rows of a microbatch
MEASURED = 30  # microbatches of one way to train
TIMEOUT_S = 60
RATE = 16000  # of sounds, in Hz
OWN_ROWS = ("whisper", "qwen3_5")  # families whose samples are rows of their own, on the host at least


class Failed(Exception):
    """A check that did not hold; with what it saw."""

    def __init__(self, what, seen=()):
        super().__init__(what)
        self.seen = dict(seen)


def demand(holds, what):
    if not holds:
        raise Failed(what)


# Data.

def png(width, height, generator):
    """An RGB picture of noise in blocks of 4 x 4 pixels."""
    rows = []
    for _ in range(-(-height // 4)):
        row = b"\0" + b"".join(generator.randbytes(3) * 4 for _ in range(-(-width // 4)))[:3 * width]
        rows += [row] * 4

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(b"".join(rows[:height]), 1)) + chunk(b"IEND", b""))


def wav(seconds, generator):
    """Mono 16-bit sound of noise."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(generator.randbytes(2 * int(seconds * RATE)))
    return out.getvalue()


def make_shard(directory, samples=SAMPLES, pixels=(28, 500), sounds=False):
    """Captions, two of three with a picture, or all with a sound."""
    generator = random.Random(1)
    directory.mkdir()
    with tarfile.open(directory / "0000.tar", "w") as shard:
        for i in range(samples):
            parts = {"txt": f"A caption of picture {i}. {'More words. ' * (i % 9)}".encode()}
            if sounds:
                parts["wav"] = wav(generator.uniform(0.3, 4), generator)
            elif i % 3:
                parts["png"] = png(generator.randint(*pixels), generator.randint(*pixels), generator)
            for extension, body in parts.items():
                entry = tarfile.TarInfo(f"s{i:04}.{extension}")
                entry.size = len(body)
                shard.addfile(entry, io.BytesIO(body))
    return directory


def model_directories(folder):
    """The directories, without weights, of every family with media; a reason instead without the package tokenizers."""
    made = subprocess.run([sys.executable, ROOT / "tests/python/model_directories.py", folder, "--no-model"],
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if made.returncode != 0:
        return [], made.stderr.strip().splitlines()[-1]
    return sorted({file.parent for file in folder.rglob("*processor_config.json")}), None


class Checks:
    """Every public method is a check: it returns what was seen, or raises Failed."""

    def __init__(self, torch, isocost, device, folder):
        self.torch, self.isocost, self.device, self.folder = torch, isocost, device, folder
        self.is_cuda = device == "cuda"
        self.width, self.rows = SIZES[device]
        self.shards = make_shard(folder / "shards")

    def loader(self, data=None, **options):
        node = None if "://" in str(data) else self.isocost.NodeOptions(correct=False)
        if node is not None:
            options = {"global_batch_size": GLOBAL_BATCH, "microbatches": 2, "epochs": 1, "node": node, **options}
        return self.isocost.DataLoader(data or self.shards, **options)

    def synchronize(self):
        if self.is_cuda:
            self.torch.cuda.synchronize()

    # The tensors of an epoch.

    def tensors(self):
        """Every tensor on the device is the host's."""
        found = {"native28": self.compared(self.shards, {})}
        directories, reason = model_directories(self.folder / "models")
        if not directories:
            return {**found, "models": f"left out: {reason}"}
        heard = make_shard(self.folder / "sounds", samples=24, sounds=True)
        for directory in directories:
            data = heard if "audio" in directory.name or "whisper" in directory.name else self.shards
            for batching in ("packed", "padded"):
                if batching == "padded" or not directory.name.startswith(OWN_ROWS):
                    found[f"{directory.name}, {batching}"] = self.compared(
                        data, {"model": directory, "batching": batching, "loss": "token_loss"})
        return found

    def compared(self, data, options):
        with self.loader(data, **options) as host, self.loader(data, device=self.device, **options) as there:
            microbatches = values = off = 0
            for expected, got in zip(host, there):
                demand(expected.sample_ids == got.sample_ids, f"other samples: {expected!r}, {got!r}")
                demand(list(expected) == list(got), f"other tensors: {list(expected)}, {list(got)}")
                for name in expected:
                    counted, differing = self.compare(name, expected[name], got[name])
                    values, off = values + counted, off + differing
                microbatches += 1
            demand(microbatches > 0, "no microbatch came")
        return {"microbatches": microbatches, "values": values, "values_that_round_otherwise": off}

    def compare(self, name, expected, got):
        """Returns (number of values, number of different values). Floats may be the next representable ones."""
        torch = self.torch
        if not isinstance(expected, torch.Tensor):
            demand(expected == got, f"{name}: {got} instead of {expected}")
            return 0, 0
        demand(got.device.type == self.device, f"{name} is on {got.device}")
        demand(expected.dtype == got.dtype and expected.shape == got.shape, f"{name}: {got.dtype} {tuple(got.shape)}")
        back = got.cpu()
        if not expected.is_floating_point():
            demand(torch.equal(expected, back), f"{name} has other values")
            return expected.numel(), 0
        up, down = (torch.nextafter(expected, torch.full_like(expected, end)) for end in (float("inf"), -float("inf")))
        demand(bool(((back == expected) | (back == up) | (back == down)).all()), f"{name} is off by more than rounding")
        if name.startswith("pixel_values"):
            demand(torch.equal(got.to(torch.bfloat16).cpu(), back.to(torch.bfloat16)), f"{name}: another bfloat16")
        return expected.numel(), int((back != expected).sum())

    # Copies.

    def copies(self):
        """Copies come from registered memory, and run while the device computes."""
        torch = self.torch
        work = torch.randn(self.width, self.width, device=self.device)
        large = make_shard(self.folder / "large", 32, (900, 1400))
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.is_cuda:
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with self.loader(large, device=self.device, microbatches=4, workers=4, prefetch=4,
                         recipe=self.isocost.RecipeOptions(max_image_patches=16384)) as loader:
            microbatches = iter(loader)
            next(microbatches)  # Registers the block.
            time.sleep(1.0)  # The others wait ready, so that no copy waits for decoding.
            with torch.profiler.profile(activities=activities) as profiler:
                sent = 0
                for _ in range(3):
                    for _ in range(60):
                        work = work @ work * 1e-3
                    sent += sum(tensor.nbytes for tensor in next(microbatches).packed.values())
                self.synchronize()
        return self.overlap(profiler, sent) if self.is_cuda else {"bytes": sent, "note": "no device"}

    def overlap(self, profiler, sent):
        on_device = [event for event in profiler.profiler.kineto_results.events()
                     if event.device_type() == self.torch.autograd.DeviceType.CUDA]
        copies = [event for event in on_device if "HtoD" in event.name()]
        kernels = [event for event in on_device if "Mem" not in event.name()]
        demand(copies, f"no copy to the device among {sorted({event.name() for event in on_device})}")
        pageable = [event.name() for event in copies if "Pinned" not in event.name()]
        demand(not pageable, f"copies from memory that is not pinned: {pageable}")
        total = sum(event.duration_ns() for event in copies)
        beside = sum(shared(event, kernel) for event in copies for kernel in kernels)
        result = {"copies": len(copies), "bytes": sent, "GB_per_s": sent / total,
                  "share_of_time_beside_kernels": beside / total}
        demand(beside > 0.5 * total, f"the copies hardly overlap with kernels: {result}")
        return result

    # A node that dies.

    def registrations(self):
        """A node in a process of its own, with isolated decoding; after it was killed and the tensors were dropped, no
        memory is registered or mapped."""
        node = subprocess.Popen([PROGRAM, "serve", "--data", self.shards, "--bind", "tcp://127.0.0.1:*",
                                 "--global-batch-size", str(GLOBAL_BATCH), "--microbatches", "2", "--isolate", "on",
                                 "--heartbeat-timeout", "3"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            loader = self.loader(node.stdout.readline().split()[-1])
            microbatches = iter(loader)
            addresses = [self.moved_from(next(microbatches)) for _ in range(3)]
            demand(any(name.startswith("/memfd:isocost") or "isocost" in name for name in mappings()),
                   f"no block of shared memory is mapped: {mappings()}")
            if self.is_cuda:
                demand(all(is_registered(address) for address in addresses), "a block is not registered")
        finally:
            node.kill()
            node.communicate()
        try:
            for _ in range(1000):
                next(microbatches)
            raise Failed("the loader did not notice that its node died")
        except self.isocost.NodeUnavailableError:
            pass
        del microbatches
        loader.close()
        gc.collect()
        self.synchronize()
        self.forget_copies()
        left = [name for name in mappings() if "isocost" in name]
        demand(not left, f"still mapped: {left}")
        if self.is_cuda:
            demand(not any(is_registered(address) for address in addresses), "a registration is left")
        return {"blocks_seen": len(set(addresses))}

    def forget_copies(self):
        """The next copy releases what earlier copies kept."""
        if self.is_cuda:
            from isocost.microbatches import device_copies

            device_copies.moved_tensors([self.torch.zeros(1)], self.device)

    def moved_from(self, microbatch):
        """Moves a microbatch to the device; returns the address where it lay."""
        address = next(iter(microbatch.packed.values())).data_ptr()
        microbatch.to(self.device)
        self.synchronize()
        return address

    # Measured seconds.

    def seconds(self):
        """Compares the seconds of `timed` with those of events placed by hand, for several ways to train."""
        ways = {"plain": lambda model: model, "checkpoint": checkpointed, "compile": self.torch.compile}
        if self.is_cuda and self.torch.distributed.is_nccl_available():
            ways["fully_shard"] = self.fully_sharded
        found, failed = {}, []
        for name, wrap in ways.items():
            try:
                found[name] = self.measured(wrap)
                demand(abs(found[name]["error"]) <= limits.ERROR_OF_SECONDS, f"{name} is off by more than 3 %")
            except Exception as error:  # noqa: BLE001: the other ways go on
                failed.append(f"{name}: {error!r}")
        if failed:
            raise Failed("; ".join(failed), found)
        return found

    def fully_sharded(self, model):
        from torch.distributed.fsdp import fully_shard

        if not self.torch.distributed.is_initialized():
            store = self.torch.distributed.FileStore(str(self.folder / "store"), 1)
            self.torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)

    def measured(self, wrap):
        model = wrap(layers_of(self.torch, self.width).to(self.device))
        rows = self.torch.randn(self.rows, self.width, device=self.device)
        reported, by_hand, whole = [], [], {True: [], False: []}
        with self.loader(epochs=0, endless=True, device=self.device) as loader:
            send = loader.recorder.send
            loader.recorder.send = lambda microbatch, measured: (reported.append(measured.whole),
                                                                 send(microbatch, measured))
            for i, microbatch in enumerate(loader):
                is_timed = i % 2 == 0
                self.synchronize()
                begun = time.perf_counter()
                if is_timed:
                    with loader.timed(microbatch):
                        start = self.mark()
                        model(rows).square().mean().backward()
                        end = self.mark()
                else:
                    model(rows).square().mean().backward()
                self.synchronize()
                whole[is_timed].append(time.perf_counter() - begun)
                if is_timed:
                    by_hand.append(self.between(start, end))
                if i == 2 * MEASURED:
                    break
            next(iter(loader), None)
        warm = 3
        pairs = list(zip(reported, by_hand))[warm:]
        demand(len(pairs) >= MEASURED - warm - 1, f"{len(reported)} reports of {len(by_hand)}")
        off = [ours / theirs - 1 for ours, theirs in pairs]
        costs = statistics.median(whole[True][warm:]) / statistics.median(whole[False][warm:]) - 1
        # By how much two halves of equal runs differ: a cost below it is not told from none.
        noise = abs(statistics.median(whole[False][warm::2]) / statistics.median(whole[False][warm + 1::2]) - 1)
        result = {"ms": 1e3 * statistics.median(theirs for _, theirs in pairs), "error": statistics.median(off),
                  "largest_error": max(off, key=abs), "cost_of_measuring": costs, "noise_of_cost": noise}
        return result

    def mark(self):
        if not self.is_cuda:
            return time.perf_counter()
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start, end):
        return start.elapsed_time(end) / 1e3 if self.is_cuda else end - start

    # Waiting.

    def no_synchronisation(self):
        """A loop over microbatches makes the host wait for the device nowhere."""
        if not self.is_cuda:
            return {"note": "no device"}
        model = layers_of(self.torch, 256).to(self.device)
        rows = self.torch.randn(64, 256, device=self.device)
        with self.loader(device=self.device) as loader:
            microbatches = iter(loader)
            for microbatch in microbatches:  # The first ones allocate and register.
                with loader.timed(microbatch):
                    model(rows).mean().backward()
                if microbatch.step == 1:
                    break
            self.torch.cuda.set_sync_debug_mode("error")
            try:
                count = 0
                for microbatch in microbatches:
                    with loader.timed(microbatch):
                        model(rows).mean().backward()
                    count += 1
            finally:
                self.torch.cuda.set_sync_debug_mode("default")
        demand(count > 0, "no microbatch came")
        return {"microbatches": count}


CHECKS = ("tensors", "copies", "registrations", "seconds", "no_synchronisation")


def shared(a, b):
    """Nanoseconds that two events of the profiler overlap."""
    return max(0, min(a.start_ns() + a.duration_ns(), b.start_ns() + b.duration_ns()) - max(a.start_ns(), b.start_ns()))


def mappings():
    """Names of the files that this process has mapped."""
    lines = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    names = {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6}
    return sorted(name for name in names if name.startswith(("/memfd:", "/dev/shm")))


class PointerAttributes(ctypes.Structure):
    """cudaPointerAttributes of CUDA 11 and later."""

    _fields_ = [("type", ctypes.c_int), ("device", ctypes.c_int), ("device_pointer", ctypes.c_void_p),
                ("host_pointer", ctypes.c_void_p), ("reserved", ctypes.c_long * 8)]


def is_registered(address):
    """Whether the CUDA runtime knows this host address."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        file = next(line.split()[-1] for line in maps if "libcudart" in line)
    found = PointerAttributes()
    status = ctypes.CDLL(file).cudaPointerGetAttributes(ctypes.byref(found), ctypes.c_void_p(address))
    demand(status == 0, f"cudaPointerGetAttributes: error {status}")
    return found.type == 1  # cudaMemoryTypeHost


def layers_of(torch, width):
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                                                  torch.nn.Linear(4 * width, width)) for _ in range(4))

        def forward(self, rows):
            for layer in self.layers:
                rows = rows + layer(rows)
            return rows

    return Layers()


def checkpointed(model):
    from torch.utils.checkpoint import checkpoint

    for layer in model.layers:
        forward = layer.forward
        layer.forward = lambda rows, forward=forward: checkpoint(forward, rows, use_reentrant=False)
    return model


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="default cuda")
    parser.add_argument("--only", default=",".join(CHECKS), metavar="NAME[,NAME]", help="default %(default)s")
    parser.add_argument("--json", metavar="FILE", help="where the results are written, too")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",")
    if unknown := set(arguments.only) - set(CHECKS):
        parser.error(f"there is no check {', '.join(sorted(unknown))}; there are {', '.join(CHECKS)}")
    return arguments


def run(check):
    """(result, whether it held)."""
    begun = time.monotonic()
    try:
        result, holds = check(), True
    except Failed as failure:
        result, holds = {**failure.seen, "failed": str(failure)}, False
    except Exception:  # noqa: BLE001: a check that breaks has failed; the others go on
        result, holds = {"failed": traceback.format_exc()}, False
    print(f"{'ok' if holds else 'FAILED':6} {check.__name__}, {time.monotonic() - begun:.1f} s: {json.dumps(result)}",
          flush=True)
    return result, holds


def main():
    arguments = parse()
    try:
        import torch

        import isocost
    except ImportError as error:
        sys.exit(f"device_loader: {error}; it needs torch, and the package isocost (PYTHONPATH=build/release/python)")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("device_loader: torch finds no CUDA GPU; --device cpu tries the path without one")
    hardware = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
    print(f"{hardware}, torch {torch.__version__}, isocost {isocost.__version__}", flush=True)
    with tempfile.TemporaryDirectory(prefix="isocost-bench-") as folder:
        checks = Checks(torch, isocost, arguments.device, pathlib.Path(folder))
        outcomes = {name: run(getattr(checks, name)) for name in arguments.only}
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    if arguments.json:
        document = {"hardware": hardware, "torch": torch.__version__,
                    "checks": {name: {"holds": holds, **result} for name, (result, holds) in outcomes.items()}}
        pathlib.Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(holds for _, holds in outcomes.values()) else 1)


if __name__ == "__main__":
    main()
