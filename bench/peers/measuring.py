"""Compares the contenders' tensors, then measures them in turn, each in a process of its own."""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

import data
from contenders import CONTENDERS

PROCESS_LIMIT_S = 900


class Failed(Exception):
    """A contender's process failed, or its tensors are not those of the work."""


def run(name, work, dataset, *more):
    """Runs a contender's process, and returns what it printed."""
    command = [sys.executable, "-B", pathlib.Path(__file__).with_name("process.py"), name, work.name, dataset.directory,
               *(["--server", dataset.server.json()] if dataset.server else []), *more]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env=data.environment(dataset.server), timeout=PROCESS_LIMIT_S)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        print(done.stderr[-3000:], file=sys.stderr)
        raise Failed(f"status {done.returncode}: {lines[-1]}")
    return done.stdout


def tensors(name, work, dataset):
    """The first batches of a contender."""
    import torch

    with tempfile.TemporaryDirectory(prefix="isocost-peers-") as temporary:
        file = pathlib.Path(temporary) / "tensors"
        run(name, work, dataset, "--tensors", file)
        return torch.load(file)


def difference(work, ours, reference):
    """Mean and largest difference of two lists of batches, in the work's unit. Raises Failed if they have other
    numbers of samples, sizes or tokens."""
    total, count, largest = 0.0, 0, 0.0
    if len(ours) != len(reference):
        raise Failed(f"{len(ours)} batches for {len(reference)}")
    for batch, wanted in zip(ours, reference):
        if not isinstance(batch, dict):
            batch, wanted = {"values": batch}, {"values": wanted}
        if batch.keys() != wanted.keys():
            raise Failed(f"tensors {', '.join(batch)} for {', '.join(wanted)}")
        for name, values in batch.items():
            if values.shape != wanted[name].shape:
                raise Failed(f"{name} {list(values.shape)} for {list(wanted[name].shape)}")
            gap = (values.double() - wanted[name].double()).abs() * (100 if name == "audio_mel" else work.scale)
            if name == "input_ids" and gap.any():
                raise Failed("other tokens")
            total, count, largest = total + float(gap.sum()), count + gap.numel(), max(largest, float(gap.max()))
    return total / count, largest


def compare(work, dataset, names, progress):
    """{name: {"mean", "largest"} or {"failed": reason}} of the contenders, by the work's reference."""
    progress(f"{work.name}: tensors of {work.reference}")
    reference = tensors(work.reference, work, dataset)
    found = {}
    for name in names:
        progress(f"{work.name}: comparing {name}")
        try:
            mean, largest = difference(work, tensors(name, work, dataset), reference)
            allowed = work.tolerances[name]
            if math.isnan(mean) or mean > allowed.mean + 1e-3 or largest > allowed.largest + 1e-2:
                raise Failed(f"differs by {mean:.2f}, at most {largest:.1f} {work.unit}; allowed are "
                             f"{allowed.mean:g} and {allowed.largest:g}")
            found[name] = {"mean": mean, "largest": largest}
        except (Failed, subprocess.TimeoutExpired) as error:
            progress(f"{work.name}: {name} is left out: {error}")
            found[name] = {"failed": str(error)}
    return found


def about(program):
    return {"lines_of_code": lines_of_code(program), "libtorch": libtorch_of(program)}


def lines_of_code(program):
    """The lines of a trainer in C++ that are neither blank nor comments."""
    source = pathlib.Path(__file__).resolve().parent / "cpp" / f"{program}.cc"
    lines = [line.strip() for line in source.read_text(encoding="utf-8").splitlines()]
    return sum(bool(line) and not line.startswith("//") for line in lines)


def libtorch_of(program):
    """The libtorch that a trainer in C++ loads."""
    libraries = subprocess.run(["ldd", data.TRAINERS / program], capture_output=True, text=True).stdout
    return next((line.split()[2] for line in libraries.splitlines() if "libtorch_cpu" in line), "unknown")


def read_once(dataset):
    """Reads the files and all shards, into the page cache."""
    shards = [path for path in dataset.directory.rglob("*") if path.suffix in (".tar", ".mds")]
    for path in {*shards, *(value for sample in dataset.samples for name, value in sample
                            if name.rpartition(".")[2] != "txt")}:
        pathlib.Path(path).read_bytes()


def measure(work, dataset, names, rounds, progress):
    """The record of a work: differences first, then `rounds` runs of each contender that passed, in turn."""
    differences = compare(work, dataset, names, progress)
    read_once(dataset)
    runs = {name: [] for name in names if "failed" not in differences[name]}
    for i in range(rounds):
        for name in list(runs):
            progress(f"{work.name}: round {i + 1} of {rounds}, {name}")
            try:
                runs[name].append(json.loads(run(name, work, dataset).splitlines()[-1]))
            except (Failed, subprocess.TimeoutExpired) as error:
                del runs[name]
                differences[name] = {"failed": str(error)}
                progress(f"{work.name}: {name} is left out: {error}")
    contenders = [{"name": name, "title": CONTENDERS[name].title, "runs": own, "difference": differences[name],
                   "tolerance": vars(work.tolerances[name])} for name, own in runs.items()]
    failed = {name: each["failed"] for name, each in differences.items() if "failed" in each}
    programs = sorted({CONTENDERS[name].program for name in runs} - {""})
    return {"name": work.name, "title": work.title, "unit": work.unit, "reference": work.reference,
            "ours": work.ours, "samples": len(dataset.samples), "contenders": contenders, "failed": failed,
            "cannot": dict(work.cannot), "programs": {each: about(each) for each in programs}}
