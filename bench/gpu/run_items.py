"""Runs the items of bench/gpu/all.sh, the most telling first. Each leaves a JSON, also when a later one is cut off.

Needs only Python 3.10 or later. It makes a virtual environment behind the interpreter that has torch, where the items
run.
"""

import argparse
import collections
import ctypes
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import zipfile
from typing import List, NamedTuple, Optional

import limits
from profile_mllm import commit

BENCH = pathlib.Path(__file__).resolve().parent
ROOT = BENCH.parents[1]
FOLDER = ROOT / "build" / "gpu"
PACKAGE = ROOT / "trainer_adapter" / "python"
ITEMS = ("works", "waiting", "own_work", "memory", "profile", "documents", "packed", "linear")
REHEARSAL_S = 3600  # of one item: how long a CPU takes, nobody knows
KILL_S = 10
LINES = 100  # of what a failed item said
REHEARSAL = "CPU"  # in place of a GPU's name: limits mean nothing there

PR_SET_PDEATHSIG = 1  # of prctl(2)

# This program prints what a machine has and lacks, as JSON. A version is that of the package that Python imports.
SURVEY = """
import importlib.metadata, importlib.util, json, platform
lacks = [name for name in ("torch", "transformers", "tokenizers", "numpy", "PIL", "cv2")
         if importlib.util.find_spec(name) is None]
versions = {"python": platform.python_version(), "libc": " ".join(platform.libc_ver())}
for name in ("isocost", "torch", "transformers", "triton", "flash-linear-attention", "causal-conv1d", "flash-attn"):
    try:
        versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
hardware = None
obstacle = "torch is missing"
if "torch" not in lacks:
    import torch
    hardware = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    from isocost.microbatches import packed_states
    obstacle = packed_states.obstacle(torch.device("cuda" if hardware else "cpu"))
print(json.dumps({"lacks": lacks, "hardware": hardware, "no_packed_states": obstacle, "versions": versions}))
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


def items(cpu, results, packs_states):
    device, tiny = (["--device", "cpu"], ["--tiny"]) if cpu else ([], [])
    short = [*tiny, "--seconds", "2"] if cpu else []
    profile = ["profile_mllm.py", *device, *tiny]
    linear_ways = "isocost,padded" if packs_states else "padded"
    return {item.name: item for item in (
        Item("works", 60, ["device_loader.py", *device, "--only", "tensors,copies,registrations,no_synchronisation"]),
        Item("waiting", 150, ["train_mllm.py", *device, *short, "--parts", "isocost,kept,processor"]),
        Item("own_work", 60, ["device_loader.py", *device, "--only", "seconds"]),
        Item("memory", 90, ["train_mllm.py", *device, *short, "--parts", "memory"]),
        Item("profile", 240, [*profile, "--svg", str(FOLDER / "profile.svg"),
                              "--budget", "20s" if cpu else "220s"]),
        Item("documents", 100, [*profile, "--svg", str(FOLDER / "documents.svg"),
                                "--budget", "20s" if cpu else "80s", "--trace", "documents",
                                "--profiles", str(results / "profile.json")], needs="profile"),
        Item("packed", 180, ["packed_rows.py", *device]),
        Item("linear", 150, ["train_mllm.py", *device, "--family", "qwen3_5", "--samples", "400",
                             *(short or ["--seconds", "15"]), "--parts", linear_ways]))}


def check_wheel(wheel):
    """The wheel has to be of this checkout: their Python sources are compared. Returns the commit of which it says that
    it is; None: it says nothing."""
    with zipfile.ZipFile(wheel) as packed:
        found = {name: packed.read(name) for name in packed.namelist()}
    sources = {str(file.relative_to(PACKAGE)): file.read_bytes() for file in (PACKAGE / "isocost").rglob("*.py")}
    other = {name for name in found if name.startswith("isocost/") and name.endswith(".py")} ^ set(sources)
    other |= {name for name, source in sources.items() if found.get(name, source) != source}
    if other:
        fail(f"{wheel.name} is of another commit than this checkout, {min(other)} differs: build it again by ./run "
             "package --portable")
    listed = next((text for name, text in found.items() if name.endswith("sboms/isocost.cdx.json")), b"{}")
    properties = json.loads(listed).get("metadata", {}).get("component", {}).get("properties", [])
    return next((own["value"] for own in properties if own["name"] == "isocost:commit"), None)


def environment(folder, wheel, more):
    """Makes the virtual environment, once for an interpreter, and installs the wheels; returns its Python. The
    interpreter's own packages stay as they are, and are found after what is installed here."""
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
    """Returns the versions in the environment. Ends the program if something is lacking."""
    done = subprocess.run([python, "-c", SURVEY], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.splitlines() or [f"status {done.returncode}"])[-1]
        fail(f"{python} cannot load torch and isocost: {last}")
    found = json.loads(done.stdout.splitlines()[-1])  # Imported modules may print before it.
    lacks = [name for name in found["lacks"] if name != "cv2"]
    if lacks:
        fail(f"{sys.executable} lacks {', '.join(lacks)}")
    if "cv2" in found["lacks"]:
        say("no OpenCV: the models train without clips")
    if not cpu and not found["hardware"]:
        fail("torch finds no CUDA GPU; --cpu rehearses without one")
    found["hardware"] = REHEARSAL if cpu else found["hardware"]
    if found["no_packed_states"]:
        say(f"linear attention with padded rows alone: {found['no_packed_states']}")
    say(", ".join([*(f"{name} {version}" for name, version in found["versions"].items()), found["hardware"]]))
    return found


class Runner:
    """identity: what all results in the folder have to share. described: what else each says as its `run`."""

    def __init__(self, python, results, identity, described, environ):
        self.python, self.results, self.environ = python, results, environ
        self.identity, self.described = identity, described
        self.failed, self.left = [], []

    def file(self, name, kind=""):
        return self.results / f"{name}{kind}.json"

    def has(self, name):
        """Returns whether the item has a result. Ends if that is one of another machine or wheel."""
        file = self.file(name)
        try:
            run = json.loads(file.read_text(encoding="utf-8")).get("run", {})
        except FileNotFoundError:
            return False
        except ValueError as error:
            fail(f"{file} is no result ({error}): remove it")
        if any(run.get(key) != value for key, value in self.identity.items()):
            fail(f"{file} is of another run, {run}: give another folder as --results, or remove it")
        return True

    def run(self, wanted, end):
        """Runs the items that fit before `end`, of time.monotonic(). What failed before comes last, with what needs it,
        so that it starves no other."""
        done = {name for name in {item.name for item in wanted} | {item.needs for item in wanted} - {None}
                if self.has(name)}
        failed = {item.name for item in wanted if self.file(item.name, ".failed").exists()}
        for item in sorted(wanted, key=lambda item: bool({item.name, item.needs} & failed)):
            left = end - time.monotonic()
            if item.name in done:
                say(f"== {item.name}: kept from an earlier call")
            elif item.seconds > left or not {item.needs} <= done | {None}:
                self.left.append(item.name)
            else:
                say(f"== {item.name}")
                why = self.measure(item, min(2 * item.seconds, left))
                if why:
                    self.failed.append(f"{item.name} ({why})")
                else:
                    done.add(item.name)

    def measure(self, item, limit):
        """Runs one item; returns why it failed. What it had measured until then is kept, too."""
        partial = self.file(item.name, ".partial")
        partial.unlink(missing_ok=True)
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        program, *arguments = item.command
        why, said = self.started([self.python, "-B", BENCH / program, *arguments, "--json", partial], limit)
        try:
            result = json.loads(partial.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            result = {}
        result["run"] = {**self.identity, **self.described, "date": date, "command": [program, *arguments]}
        if why:
            result.update(failed=why, said=said)
        else:
            result["limits"] = self.judged(item.name, result)
        if result.keys() - {"run", "failed", "said"} or not self.file(item.name, ".failed").exists():
            partial.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            partial.replace(self.file(item.name, ".failed" if why else ""))
        partial.unlink(missing_ok=True)
        if not why:
            self.file(item.name, ".failed").unlink(missing_ok=True)
        return why

    def started(self, command, limit):
        """Runs a command in a process group of its own, since items have nodes and trainers. Returns why it failed, and
        the end of what it said."""
        said = collections.deque(maxlen=LINES)
        running = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=self.environ, preexec_fn=bound,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        reader = threading.Thread(target=self.pass_on, args=(running.stdout, said), daemon=True)
        reader.start()
        try:
            status = running.wait(limit)
            why = f"status {status}" if status else None
        except subprocess.TimeoutExpired:
            why = f"cut off after {limit:.0f} s"
        finally:
            end_group(running)
        reader.join(KILL_S)
        running.stdout.close()
        return why, list(said)

    @staticmethod
    def pass_on(lines, said):
        for line in lines:
            print(line, end="", flush=True)
            said.append(line.rstrip("\n"))

    def judged(self, name, result):
        """Returns the limits of a result, as documents, and says which it misses. A rehearsal has none."""
        if self.identity["hardware"] == REHEARSAL:
            return []
        try:
            found = limits.of(name, result)
        except (KeyError, TypeError, AttributeError):
            say(f"{name}: its limits cannot be judged: {traceback.format_exc()}")
            return []
        for limit in found:
            say(str(limit))
        return [limit.document() for limit in found]


def bound():
    """Called in an item's process: a group of its own, which ends with this process, however that ends."""
    os.setpgrp()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_group(process):
    """Ends what is left of the process and its group, and waits until it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        end = time.monotonic() + KILL_S
        while time.monotonic() < end:
            process.poll()
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                return
            time.sleep(0.05)


def raise_exit(number, _frame):
    """Handles a signal by SystemExit, so that `finally` ends an item."""
    sys.exit(128 + number)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="all.sh", description=__doc__.splitlines()[0],
                                     epilog="Ends with 1 if an item failed, and with 3 if some are left for another "
                                     "call. $PYTHON (python3) is the interpreter that has torch.")
    parser.add_argument("wheel", type=pathlib.Path, metavar="WHEEL", help="a self-contained one, made by ./run package "
                        "--portable for this machine's Python from this checkout")
    parser.add_argument("--budget", type=float, default=350, metavar="SECONDS", help="begins no item that would last "
                        "longer (default 350); another call goes on with the items that are left")
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
    begun = time.monotonic()
    settings = parse(sys.argv[1:])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, raise_exit)
    wheel = settings.wheel.resolve()
    results = (settings.results or FOLDER / ("results-cpu" if settings.cpu else "results")).resolve()
    for folder in (results, FOLDER):
        folder.mkdir(parents=True, exist_ok=True)
    wheel_commit = check_wheel(wheel)
    python = environment(FOLDER, wheel, settings.wheels and settings.wheels.resolve())
    machine = surveyed(python, settings.cpu)
    identity = {"wheel": wheel.name, "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
                "hardware": machine["hardware"], "torch": machine["versions"]["torch"]}
    described = {"versions": machine["versions"], "wheel_commit": wheel_commit, "commit": commit()}
    environ = {**os.environ, "ISOCOST_PROGRAM": str(python.parent / "isocost")}
    runner = Runner(python, results, identity, described, environ)
    every = items(settings.cpu, results, not machine["no_packed_states"])
    wanted = [every[name] for name in ITEMS if name in settings.items.split(",")]
    if settings.cpu:
        runner.run([item._replace(seconds=REHEARSAL_S) for item in wanted], float("inf"))
    else:
        runner.run(wanted, begun + settings.budget)
    say(f"results in {results}, after {time.monotonic() - begun:.0f} s")
    if runner.failed:
        say(f"failed: {', '.join(runner.failed)}")
    if runner.left:
        say(f"left for another call: {', '.join(runner.left)}")
    sys.exit(1 if runner.failed else 3 if runner.left else 0)


if __name__ == "__main__":
    main()
