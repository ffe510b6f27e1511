#!/usr/bin/env python3
"""Trains a small multimodal model on real media under several balancing policies, and compares them.

In each pass `isocost serve` feeds two trainers over loopback. The passes are interleaved: in-order, cost, tokens, cost,
in-order. Prints a table, writes a JSON report and a picture (SVG).
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import prepare_media  # noqa: E402
import report  # noqa: E402
import steps  # noqa: E402
import timeline  # noqa: E402

PROFILED_LOADS = 55  # of the demo's model; the bar's whole
SILENCE_S = 120  # a run that makes no step for this long has failed
GRACE_S = 5  # between asking a process to stop and killing it

# A rank computes on one thread. Otherwise OpenBLAS starts one for each core in every process, and ranks that compete
# for cores slow each other down.
ONE_THREAD = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class Bar:
    """Progress on stderr: a line that is redrawn on a terminal; elsewhere a new line for every tenth of the work."""

    def __init__(self):
        self.tty = sys.stderr.isatty()
        self.last = None

    def __call__(self, done, total, what):
        tenth = (what, 10 * done // max(1, total))
        if not self.tty and tenth == self.last:
            return
        self.last = tenth
        filled = 30 * done // max(1, total)
        line = f"[{'#' * filled}{'.' * (30 - filled)}] {done}/{total} {what}"
        print(f"\r\033[K{line[:shutil.get_terminal_size().columns - 1]}" if self.tty else line,
              end="" if self.tty else "\n", file=sys.stderr, flush=True)

    def finish(self):
        if self.tty and self.last:
            print(file=sys.stderr)
        self.last = None


def end_with_parent():
    """Called in the child: it is sent SIGKILL when the demo ends, even if the demo is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Processes:
    """The processes of a run; all have ended when the `with` block ends."""

    def __init__(self, logs):
        self.logs = logs
        self.running = {}

    def start(self, name, command, niceness=0):
        log = open(self.logs / f"{name}.log", "w+b")
        self.running[name] = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
            env=ONE_THREAD, preexec_fn=lambda: (end_with_parent(), os.nice(niceness)))
        log.close()

    def log(self, name):
        return (self.logs / f"{name}.log").read_text(errors="replace")

    def failed(self):
        return [n for n, p in self.running.items() if p.poll() not in (None, 0)]

    def all_done(self):
        return all(p.poll() is not None for p in self.running.values())

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.running.values():
                if process.poll() is None:
                    os.killpg(process.pid, number)
            deadline = time.monotonic() + GRACE_S
            while not self.all_done() and time.monotonic() < deadline:
                time.sleep(0.05)


class Failed(Exception):
    """A run failed; the message holds the last output of its processes."""


def last_output(processes, names):
    return "\n".join(f"--- {name}\n{processes.log(name)[-2000:].strip()}" for name in names)


def wait_for(processes, condition, what, seconds):
    """Blocks until `condition` returns something, and returns it. Raises Failed if a process fails, or after
    `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value is not None:
            return value
        if processes.failed() or time.monotonic() > deadline:
            why = "a process failed" if processes.failed() else f"nothing after {seconds} s"
            raise Failed(f"{what}: {why}\n{last_output(processes, processes.running)}")
        time.sleep(0.1)


def listening(processes):
    for line in processes.log("node").splitlines():
        if line.startswith("listening on "):
            return line.split()[-1]
    return None


class StepCounter:
    """Counts the steps in a trace that is still being written, reading only what is new."""

    def __init__(self, file):
        self.file = file
        self.offset = 0
        self.steps = 0

    def update(self):
        if self.file.exists():
            with self.file.open("rb") as trace:
                trace.seek(self.offset)
                new = trace.read()
            new = new[:new.rfind(b"\n") + 1]
            self.offset += len(new)
            self.steps += new.count(b'"type":"step"')
        return self.steps


def serve_command(options, policy, summary):
    return [options.program, "serve", "--data", options.data, "--ranks", options.ranks,
            "--global-batch-size", options.global_batch_size, "--microbatches", options.microbatches,
            "--balance", policy, "--profile", options.profile, "--epochs", 1,
            "--steps", options.steps, "--seed", options.seed,
            "--max-frame-patches", 512, "--bind", "tcp://127.0.0.1:*", "--summary", summary,
            "--bad-samples-file", summary.with_name("bad_samples.jsonl")]


def trainer_command(options, endpoint, rank, directory):
    return [options.trainer, "--endpoint", endpoint, "--rank", rank, "--world-size", options.ranks,
            "--store", directory / "peers", "--seed", options.seed, "--threads", 1,
            "--report", directory / f"trace-{rank}.jsonl"]


def steps_of_a_pass(options, samples):
    epoch = -(-samples // options.global_batch_size)
    return min(epoch, options.steps) if options.steps else epoch


def train(options, number, policy, samples, bar, pace):
    """Trains one pass under one policy. Returns its report.Run."""
    total = steps_of_a_pass(options, samples)
    what = f"steps, pass {number} of {len(report.PASSES)}: {policy}"
    directory = options.directory / "runs" / f"{number}-{policy}"  # traces and logs are kept
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with Processes(directory) as processes:
        processes.start("node", serve_command(options, policy, directory / "summary.json"),
                        options.node_niceness)
        endpoint = wait_for(processes, lambda: listening(processes), "the node starts", 120)
        for rank in range(options.ranks):
            processes.start(f"trainer-{rank}", trainer_command(options, endpoint, rank, directory))
        counter = StepCounter(directory / "trace-0.jsonl")
        while not processes.all_done():
            before = counter.steps
            wait_for(processes,
                     lambda before=before: True if counter.update() > before or processes.all_done() else None,
                     f"step {before + 1}, {policy}", SILENCE_S)
            done = min(counter.steps, total)
            bar(done, total, what + pace.left(done))
        pace.end_pass(total)
        if processes.failed():
            raise Failed(last_output(processes, processes.failed()))
    bar.finish()
    lines = []
    for rank in range(options.ranks):
        lines += report.read_trace(directory / f"trace-{rank}.jsonl")
    summary = json.loads((directory / "summary.json").read_text())
    return report.Run(policy, lines, summary, samples, bool(options.steps))


def make_shards(options, bar):
    """Makes media, manifest and shards unless they are there. Returns the number of samples."""
    manifest = prepare_media.prepare(options.directory, options.samples, options.seed, bar)
    bar.finish()
    mark = options.data / "made-from"
    if not (mark.exists() and mark.read_text() == manifest.name):
        shutil.rmtree(options.data, ignore_errors=True)
        if subprocess.run([options.program, "make-shards", manifest, options.data]).returncode:
            raise Failed("isocost make-shards failed")
        mark.write_text(manifest.name)
    with manifest.open("rb") as lines:
        return sum(1 for _ in lines)


def make_profile(options, bar):
    """Measures the model on this machine unless its model profile is there."""
    if options.profile.exists():
        return
    scratch = options.profile.with_suffix(".tmp")
    command = [options.program, "model", "profile", "--example", "--budget", options.profile_budget,
               "--output", scratch, "--force"]
    said = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as profiling:
        for line in profiling.stderr:
            said.append(line)
            bar(len(said), max(PROFILED_LOADS, len(said)), "loads measured; " + line.strip())
    bar.finish()
    if profiling.returncode:
        raise Failed("isocost model profile --example failed:\n" + "".join(said[-5:]))
    scratch.rename(options.profile)


def train_all(options, samples, bar):
    """Trains all passes. Returns their report.Run."""
    pace = steps.Pace(len(report.PASSES) * steps_of_a_pass(options, samples))
    return [train(options, number, policy, samples, bar, pace) for number, policy in enumerate(report.PASSES, 1)]


def parse_arguments():
    root = pathlib.Path(__file__).resolve().parents[2]
    build = root / "build"
    parser = argparse.ArgumentParser(prog="./run demo", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--json", type=pathlib.Path, default=build / "demo/report.json", metavar="FILE",
        help="report to write (%(default)s)")
    add("--picture", type=pathlib.Path, default=build / "demo/timeline.svg", metavar="FILE",
        help="picture to write (%(default)s)")
    add("--media-only", action="store_true", help="make the data set, and train nothing")
    add("--quick", action="store_true", help=f"train {steps.QUICK_STEPS} steps in each pass")
    add("--steps", type=int, default=0, help="steps to train in each pass (0: the whole epoch)")
    add("--samples", type=int, default=2048, help="samples in the data set (%(default)s)")
    add("--global-batch-size", type=int, default=32, help="samples per step (%(default)s)")
    add("--microbatches", type=int, default=4, help="microbatches per rank and step (%(default)s)")
    add("--ranks", type=int, default=2, help="number of trainers (%(default)s)")
    add("--profile-budget", default="60s", metavar="TIME",
        help="time for measuring the model, which the first run does (%(default)s)")
    add("--seed", type=int, default=0, help="seed of the data order and of the weights (%(default)s)")
    options = parser.parse_args()
    if options.quick:
        options.steps = options.steps or steps.QUICK_STEPS
    options.directory = build / "demo"
    options.data = options.directory / "shards"
    options.profile = options.directory / "profile.json"
    options.program = build / "release/isocost"
    options.trainer = build / "release/multimodal_trainer"
    # Trainers use all cores: a lower priority keeps decoding from slowing the computation that is timed.
    options.node_niceness = 5
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_arguments()
    bar = Bar()
    try:
        steps.announce("media", steps_of_a_pass(options, options.samples))
        samples = make_shards(options, bar)
        if options.media_only:
            print(options.data)
            return
        steps.announce("profile", steps_of_a_pass(options, samples))
        make_profile(options, bar)
        steps.announce("train", steps_of_a_pass(options, samples))
        runs = train_all(options, samples, bar)
    except Failed as failure:
        bar.finish()
        sys.exit(f"demo: {failure}")
    except KeyboardInterrupt:
        bar.finish()
        sys.exit(130)
    result = report.compare(runs)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    options.picture.write_text(timeline.draw(runs, result), encoding="utf-8")
    print(report.table(result))
    print(f"report:  {options.json}\npicture: {options.picture}")
    broken = report.problems(runs, result)
    if broken:
        sys.exit("demo: " + "; ".join(broken))


if __name__ == "__main__":
    main()
