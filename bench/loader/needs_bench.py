"""Does `isocost data profile --measure-decoding` know how many cores the demo's node takes?

Runs ./run demo --steps 48, which trains five passes, and reads the CPU seconds of each pass's node from its first
word to its end. Before and after the demo, the data profile of the same shards and recipe measures what a sample takes.
The cores that it predicts are these seconds times the samples a second of a pass. Prints the cores of each pass beside
the predicted ones. All samples must have been delivered.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from process_tree import tree  # noqa: E402

PROGRAM = ROOT / "build/release/isocost"
DEMO = ROOT / "build/demo"
RECIPE = ("--max-frame-patches", "512")  # of the demo's node
TICKS = 100  # clock ticks a second, in /proc
STEPS = 48  # of each pass
MEASUREMENTS = 3  # before the demo, and after it


def cpu_seconds(pid):
    """CPU seconds of a process and all that it started."""
    total = 0
    for each in tree(pid):
        try:
            fields = pathlib.Path(f"/proc/{each}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def is_node(pid):
    try:
        return b"serve" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


class Nodes(threading.Thread):
    """Watches the nodes that a process starts, one after another."""

    def __init__(self, parent):
        super().__init__(daemon=True)
        self.parent, self.seconds = parent, {}  # of each node: at its first word, and the last that was seen
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(0.05):
            for pid in tree(self.parent):
                if is_node(pid):
                    self.see(pid)

    def see(self, pid):
        seconds = cpu_seconds(pid)
        if pid in self.seconds:
            self.seconds[pid][1] = max(seconds, self.seconds[pid][1])
        elif any("listening" in log.read_text(errors="replace") for log in self.logs(pid)):
            self.seconds[pid] = [seconds, seconds]

    @staticmethod
    def logs(pid):
        """The log of a node, which is its standard output."""
        try:
            return [pathlib.Path(f"/proc/{pid}/fd/1").resolve(strict=True)]
        except OSError:
            return []


def predicted():
    """CPU seconds that the data profile measures for a sample."""
    done = subprocess.run([PROGRAM, "data", "profile", DEMO / "shards", *RECIPE, "--profile", DEMO / "profile.json",
                           "--measure-decoding", "--json"], capture_output=True, text=True, check=True)
    needs = json.loads(done.stdout)["loader"]
    return needs["cores"] / needs["samples_per_s"]


def demo():
    """For each pass: its name, CPU seconds of its node, samples, and seconds of its steps."""
    command = [sys.executable, ROOT / "examples/demo/demo.py", "--steps", str(STEPS)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    nodes = Nodes(process.pid)
    nodes.start()
    assert process.wait() == 0, "the demo failed"
    nodes.ended.set()
    nodes.join()
    runs = sorted((DEMO / "runs").iterdir())
    assert len(runs) == len(nodes.seconds), f"{len(runs)} passes, {len(nodes.seconds)} nodes"
    return [(run.name, end - start, *delivered(run)) for (start, end), run in zip(nodes.seconds.values(), runs)]


def delivered(run):
    """Samples that a pass delivered, and its seconds."""
    samples = json.loads((run / "summary.json").read_text(encoding="utf-8"))["samples"]
    assert samples["delivered"] == samples["planned"] == STEPS * 32, samples
    steps = [line for line in map(json.loads, (run / "trace-0.jsonl").read_text(encoding="utf-8").splitlines())
             if line["type"] == "step"]
    return samples["delivered"], steps[-1]["end_s"] - steps[0]["start_s"]


def main():
    if not (DEMO / "profile.json").exists():  # the demo measures its model first
        subprocess.run([PROGRAM, "model", "profile", "--example", "--budget", "60s", "--output", DEMO / "profile.json"],
                       check=True, stdout=subprocess.DEVNULL)
    before = [predicted() for _ in range(MEASUREMENTS)]
    passes = demo()
    measured = before + [predicted() for _ in range(MEASUREMENTS)]
    of_sample = statistics.median(measured)
    print(f"measured beside the demo: {1e3 * of_sample:.2f} ms of a core a sample "
          f"({1e3 * min(measured):.2f} to {1e3 * max(measured):.2f})")
    print(f"{'pass':14} {'samples/s':>9} {'cores':>7} {'predicted':>9} {'off by':>7}")
    ratios = []
    for name, cpu, samples, seconds in passes:
        rate = samples / seconds
        ratios.append(of_sample * rate / (cpu / seconds))
        print(f"{name:14} {rate:9.2f} {cpu / seconds:7.4f} {of_sample * rate:9.4f} {100 * (ratios[-1] - 1):6.1f}%")
    print(f"median over passes: {100 * (statistics.median(ratios) - 1):.1f} %")


if __name__ == "__main__":
    main()
