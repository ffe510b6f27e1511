"""Runs the items of bench/gpu/all.sh, the most telling first. Each leaves a JSON, also when a later one is cut off.

Needs Python 3.10 or later alone. It makes a virtual environment behind the interpreter that has torch, where the items
run.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from typing import List, NamedTuple, Optional

import limits

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parents[1]
PACKAGE = ROOT / "trainer_adapter" / "python"
ITEMS = ("works", "waiting", "own_work", "memory", "profile", "documents", "packed", "linear")
REHEARSAL_S = 3600  # of one item: how long a CPU takes, nobody knows
KILL_S = 10
REHEARSAL = "CPU"  # in place of a GPU's name: limits mean nothing there

# What a machine has, as JSON; the names that it lacks.
SURVEY = """
import importlib.metadata, importlib.util, json, platform
named = ("torch", "transformers", "tokenizers", "numpy", "PIL", "cv2")
lacks = [name for name in named if importlib.util.find_spec(name) is None]
known = {own.metadata["Name"].lower().replace("_", "-"): own.version for own in importlib.metadata.distributions()}
wanted = ("isocost", "torch", "transformers", "triton", "flash-linear-attention", "causal-conv1d", "flash-attn")
hardware = None
if "torch" not in lacks:
    import torch
    hardware = torch.cuda.get_device_name() if torch.cuda.is_available() else None
kernels = all(importlib.util.find_spec(name) for name in ("causal_conv1d", "fla"))
print(json.dumps({"lacks": lacks, "hardware": hardware, "kernels": kernels,
                  "versions": {"python": platform.python_version(), "libc": " ".join(platform.libc_ver()),
                               **{name: known[name] for name in wanted if name in known}}}))
"""


class Item(NamedTuple):
    """seconds: the most that it lasts on a GPU. command: program of this folder and its arguments. needs: the item
    whose result it reads."""

    name: str
    seconds: int
    command: List[str]
    needs: Optional[str] = None


def fail(message):
    print(f"all.sh: {message}", file=sys.stderr)
    sys.exit(2)


def say(line):
    print(line, flush=True)


def items(cpu, results, kernels):
    device, tiny = (["--device", "cpu"], ["--tiny"]) if cpu else ([], [])
    short = [*tiny, "--seconds", "2"] if cpu else []
    profile = ["profile_mllm.py", *device, *tiny]
    # Packed rows need the kernels of linear attention, and a GPU.
    linear_ways = "isocost,padded" if kernels and not cpu else "padded"
    return {item.name: item for item in (
        Item("works", 60, ["device_loader.py", *device, "--only", "tensors,copies,registrations,no_synchronisation"]),
        Item("waiting", 150, ["train_mllm.py", *device, *short, "--parts", "isocost,kept,processor"]),
        Item("own_work", 60, ["device_loader.py", *device, "--only", "seconds"]),
        Item("memory", 90, ["train_mllm.py", *device, *short, "--parts", "memory"]),
        Item("profile", 240, [*profile, "--svg", str(results.parent / "profile.svg"),
                              "--budget", "20s" if cpu else "220s"]),
        Item("documents", 110, [*profile, "--svg", str(results.parent / "documents.svg"),
                                "--budget", "20s" if cpu else "90s", "--trace", "documents",
                                "--profiles", str(results / "profile.json")], needs="profile"),
        Item("packed", 180, ["packed_rows.py", *device]),
        Item("linear", 150, ["train_mllm.py", *device, "--family", "qwen3_5", "--samples", "400",
                             *(short or ["--seconds", "15"]), "--parts", linear_ways]))}


def check_wheel(wheel):
    """The wheel has to be of this checkout: their Python sources are compared."""
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            file = PACKAGE / name
            if name.startswith("isocost/") and name.endswith(".py") and (
                    not file.is_file() or file.read_bytes() != packed.read(name)):
                fail(f"{wheel.name} is of another commit than this checkout: {name} differs; build it again by "
                     "./run package --portable")


def environment(folder, wheel, more):
    """Makes the virtual environment, once for an interpreter, and installs the wheels; returns its Python. The
    interpreter's own packages stay as they are, and are found behind what is installed here."""
    own = hashlib.sha256(f"{sys.executable} {sys.version} {sys.prefix}".encode()).hexdigest()[:8]
    venv = folder / f"venv-{sys.implementation.cache_tag}-{own}"
    python = venv / "bin" / "python"
    if not venv.exists():
        made = folder / f"{venv.name}.new"
        shutil.rmtree(made, ignore_errors=True)
        if subprocess.run([sys.executable, "-m", "venv", made], check=False).returncode != 0:
            fail(f"{sys.executable} makes no virtual environment: Debian and Ubuntu have what it lacks in python3-venv")
        packages = "".join(f"{path}\n" for path in sys.path if path.endswith("-packages"))
        (next(made.glob("lib/python3*/site-packages")) / "of_interpreter.pth").write_text(packages, encoding="utf-8")
        made.rename(venv)
    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall"]
    if subprocess.run([*pip, wheel], check=False).returncode != 0:
        # pip has said why.
        fail(f"{wheel.name} cannot be installed for CPython {sys.version.split()[0]}")
    for extra in sorted(more.glob("*.whl")) if more else ():
        if subprocess.run([*pip, extra], check=False).returncode != 0:
            say(f"all.sh: {extra.name} does not fit this machine, and is left out")
    return python


def surveyed(python, cpu):
    """What the environment has; ends where something is lacking."""
    done = subprocess.run([python, "-c", SURVEY], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"torch cannot be loaded: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout)
    lacks = [name for name in found["lacks"] if name != "cv2"]
    if lacks:
        fail(f"{sys.executable} lacks {', '.join(lacks)}")
    if "cv2" in found["lacks"]:
        say("no OpenCV: the models train without clips")
    if not cpu and not found["hardware"]:
        fail("torch finds no CUDA GPU; --cpu rehearses without one")
    found["hardware"] = REHEARSAL if cpu else found["hardware"]
    say(", ".join([*(f"{name} {version}" for name, version in found["versions"].items()), found["hardware"]]))
    return found


def commit():
    try:
        done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
                              capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


class Runner:
    """identity: what all results in the folder have in common, written into each as `run`."""

    def __init__(self, python, results, identity, environ):
        self.python, self.results, self.identity, self.environ = python, results, identity, environ
        self.is_rehearsal = identity["hardware"] == REHEARSAL
        self.failed, self.left = [], []

    def done(self, name):
        """Returns whether the item has a result. Ends where it is one of another machine or wheel."""
        file = self.file(name)
        if not file.exists():
            return False
        run = json.loads(file.read_text(encoding="utf-8")).get("run", {})
        if any(run.get(key) != value for key, value in self.identity.items()):
            fail(f"{file} is of another run, {run}: give another folder as --results, or remove it")
        say(f"== {name}: kept from an earlier call")
        return True

    def file(self, name):
        return self.results / f"{name}.json"

    def unfinished(self, name):
        return self.results / f"{name}.failed.json"

    def run(self, wanted, budget):
        """Runs the items that fit in `budget` seconds. What failed before comes last, so that it starves no other."""
        begun = time.monotonic()
        for item in sorted(wanted, key=lambda item: self.unfinished(item.name).exists()):
            left = budget - (time.monotonic() - begun)
            if self.done(item.name):
                continue
            if item.seconds > left or (item.needs and not self.file(item.needs).exists()):
                self.left.append(item.name)
                continue
            say(f"== {item.name}")
            why = self.measure(item, min(2 * item.seconds, left))
            if why:
                self.failed.append(f"{item.name} ({why})")
        say(f"results in {self.results}, after {time.monotonic() - begun:.0f} s")

    def measure(self, item, limit):
        """Runs one item; returns why it failed."""
        unfinished = self.unfinished(item.name)
        unfinished.write_text("{}", encoding="utf-8")
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        program, *arguments = item.command
        command = [self.python, "-B", BENCH / program, *arguments, "--json", unfinished]
        # A group of its own, since items have nodes and trainers.
        running = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=self.environ, start_new_session=True)
        try:
            status = running.wait(limit)
        except subprocess.TimeoutExpired:
            return f"cut off after {limit:.0f} s"
        finally:
            end(running)
        if status != 0:
            return f"status {status}"
        result = json.loads(unfinished.read_text(encoding="utf-8"))
        result["run"] = {**self.identity, "date": date, "commit": commit(), "command": [program, *arguments]}
        judged = [] if self.is_rehearsal else limits.of(item.name, result)
        for limit in judged:
            say(str(limit))
        result["limits"] = [limit.document() for limit in judged]
        self.file(item.name).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        unfinished.unlink()
        return None


def end(process):
    """Ends what is left of the process and its group."""
    for number, wait_s in ((signal.SIGTERM, KILL_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            continue


def parse(arguments):
    parser = argparse.ArgumentParser(prog="all.sh", description=__doc__.splitlines()[0],
                                     epilog="Ends with 1 if an item failed, and with 3 if some are left for another "
                                     "call. $PYTHON (python3) is the interpreter that has torch.")
    parser.add_argument("wheel", type=pathlib.Path, metavar="WHEEL", help="a self-contained one, made by ./run package "
                        "--portable for this machine's Python from this checkout")
    parser.add_argument("--budget", type=float, default=360, metavar="SECONDS", help="begins no item that would last "
                        "longer (default 360); another call goes on with the items that are left")
    parser.add_argument("--items", default=",".join(ITEMS), metavar="NAME,...", help=f"some of {', '.join(ITEMS)} "
                        "(default: all)")
    parser.add_argument("--results", type=pathlib.Path, metavar="FOLDER", help="where each item leaves a JSON (default "
                        "build/gpu/results, or results-cpu); an item that has one there is not repeated")
    parser.add_argument("--wheels", type=pathlib.Path, metavar="FOLDER", help="wheels that are installed, too, such as "
                        "flash-linear-attention's")
    parser.add_argument("--cpu", action="store_true", help="rehearses with tiny shapes, without a GPU")
    settings = parser.parse_args(arguments)
    unknown = [name for name in settings.items.split(",") if name not in ITEMS]
    if unknown:
        parser.error(f"no item '{unknown[0]}'; there are {', '.join(ITEMS)}")
    for path in (settings.wheel, settings.wheels):
        if path and not path.exists():
            parser.error(f"{path} does not exist")
    return settings


def main():
    settings = parse(sys.argv[1:])
    folder = ROOT / "build" / "gpu"
    wheel = settings.wheel.resolve()
    results = (settings.results or folder / ("results-cpu" if settings.cpu else "results")).resolve()
    results.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    check_wheel(wheel)
    python = environment(folder, wheel, settings.wheels and settings.wheels.resolve())
    machine = surveyed(python, settings.cpu)
    identity = {"wheel": wheel.name, "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
                "hardware": machine["hardware"], "versions": machine["versions"]}
    environ = {**os.environ, "ISOCOST_PROGRAM": str(python.parent / "isocost")}
    runner = Runner(python, results, identity, environ)
    every = items(settings.cpu, results, machine["kernels"])
    wanted = [every[name] for name in ITEMS if name in settings.items.split(",")]
    runner.run([item._replace(seconds=REHEARSAL_S) if settings.cpu else item for item in wanted],
               float("inf") if settings.cpu else settings.budget)
    if runner.failed:
        say(f"failed: {', '.join(runner.failed)}")
    if runner.left:
        say(f"left for another call: {', '.join(runner.left)}")
    sys.exit(1 if runner.failed else 3 if runner.left else 0)


if __name__ == "__main__":
    main()
